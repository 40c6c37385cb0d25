//! Records that wait in a ring until they are written to a file, away from the packets.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{Arg, ArgErrors, Args, Cx, Ty};

/// Token of the timer by which a journal is written.
pub(super) const JOURNAL_TIMER: u32 = u32::MAX - 1;
/// Time between writings, nanoseconds.
const WRITE_EVERY_NS: i64 = 100_000_000;
/// Time to the next where records are left, nanoseconds.
const WRITE_AGAIN_NS: i64 = 1_000_000;
/// Records written at once: a fraction of a millisecond, so that packets do not wait long.
const WRITE_AT_ONCE: usize = 128;
/// Most of RECORDS_MAX.
const ROOM_MAX: usize = 1 << 24;

/// How many records may wait.
pub(super) const RECORDS_MAX: Arg =
    Arg::keyword("RECORDS_MAX", Ty::UInt, "most records that wait to be written").or("65536");

/// The file that all replicas of an element write to.
type Shared = Arc<Mutex<Option<Out>>>;
/// An open file, or standard output.
type Out = BufWriter<Box<dyn Write + Send>>;

/// Records of one thread.
pub(super) struct Journal<R> {
    path: Option<String>,
    file: Shared,
    /// Appends a record's line.
    line: fn(&R, &mut String),
    waiting: VecDeque<R>,
    room: usize,
    text: String,
    is_armed: bool,
    is_reported: bool,
    /// Records written.
    pub(super) written: u64,
    /// Records for which there was no room, or that could not be written.
    pub(super) lost: u64,
}

impl<R> Journal<R> {
    /// As the arguments `file` and RECORDS_MAX say; without `file` nothing is kept.
    pub(super) fn from_args(
        args: &Args<'_>,
        file: &str,
        line: fn(&R, &mut String),
    ) -> Result<Journal<R>, ArgErrors> {
        let path: Option<String> = args.opt(file)?;
        let records_max: usize = args.get("RECORDS_MAX")?;
        if records_max == 0 || records_max > ROOM_MAX {
            let message = format!("must be from 1 to {ROOM_MAX}");
            return Err(args.error("RECORDS_MAX", message).into());
        }
        let room = if path.is_some() { records_max } else { 0 };
        Ok(Journal {
            path,
            file: args.shared("journal", || Mutex::new(None)),
            line,
            waiting: VecDeque::with_capacity(room),
            room,
            text: String::new(),
            is_armed: false,
            is_reported: false,
            written: 0,
            lost: 0,
        })
    }

    /// Whether records are wanted.
    pub(super) fn is_wanted(&self) -> bool {
        self.room > 0
    }

    /// Opens the file, if another thread has not, with this as its first line.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn open(&mut self, header: &str) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = self.file.lock();
        if file.is_some() {
            return Ok(());
        }
        let open = || -> io::Result<Out> {
            let to: Box<dyn Write + Send> =
                if path == "-" { Box::new(io::stdout()) } else { Box::new(File::create(path)?) };
            let mut out = BufWriter::new(to);
            out.write_all(header.as_bytes())?;
            Ok(out)
        };
        *file = Some(open().map_err(|error| format!("cannot write '{path}': {error}"))?);
        Ok(())
    }

    /// Keeps a record.
    #[inline]
    pub(super) fn push(&mut self, record: R) {
        if self.waiting.len() < self.room {
            self.waiting.push_back(record);
        } else {
            self.lost += u64::from(self.is_wanted());
        }
    }

    /// Sees to it that records that wait are written.
    #[inline]
    pub(super) fn arm(&mut self, cx: &mut Cx<'_>) {
        self.arm_after(cx, WRITE_EVERY_NS);
    }

    fn arm_after(&mut self, cx: &mut Cx<'_>, after: i64) {
        if !self.is_armed && !self.waiting.is_empty() {
            self.is_armed = true;
            cx.set_timer(JOURNAL_TIMER, cx.now().saturating_add(after));
        }
    }

    /// [`JOURNAL_TIMER`] has come.
    pub(super) fn timer(&mut self, cx: &mut Cx<'_>) {
        self.is_armed = false;
        self.write(cx, WRITE_AT_ONCE);
        self.arm_after(cx, WRITE_AGAIN_NS);
    }

    /// Writes all that waits.
    pub(super) fn flush(&mut self, cx: &mut Cx<'_>) {
        self.write(cx, usize::MAX);
    }

    fn write(&mut self, cx: &mut Cx<'_>, max: usize) {
        if self.waiting.is_empty() {
            return;
        }
        let mut file = self.file.lock();
        let Some(out) = &mut *file else { return };
        self.text.clear();
        let count = self.waiting.len().min(max);
        for record in self.waiting.drain(..count) {
            (self.line)(&record, &mut self.text);
        }
        match out.write_all(self.text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => self.written += count as u64,
            Err(error) => {
                self.lost += count as u64;
                let path = self.path.as_deref().unwrap_or("");
                if !std::mem::replace(&mut self.is_reported, true) {
                    cx.log(&format!("cannot write '{path}': {error}"));
                }
            }
        }
    }

    /// Gives up the records that wait, and the file, for another element.
    pub(super) fn hand_over(&mut self) -> Journal<R> {
        Journal {
            path: self.path.clone(),
            file: Arc::clone(&self.file),
            waiting: std::mem::take(&mut self.waiting),
            text: String::new(),
            ..*self
        }
    }

    /// Goes on with the records of the element that stood here before, and with its file if it is
    /// the same.
    pub(super) fn take_over(&mut self, mut before: Journal<R>) {
        if before.path == self.path {
            self.file = before.file;
        }
        (self.written, self.lost) = (before.written, before.lost);
        before.waiting.drain(..).for_each(|record| self.push(record));
    }
}
