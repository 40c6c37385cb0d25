//! The bench's own elements: numbered packets of many sessions, and an end that looks at what comes
//! back from the function, which says in each which of its processes had it.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use thruway_element::{Arg, Cx, Element, Entry, Run, Spec, Threading, Topic, Ty};
use thruway_packet::Batch;
use thruway_sync::Counter;
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::stamp::{COUNT, NUMBER, PROCESS};
use crate::flow::elements::{BURST, Frames};
use crate::ledger::{self, Ledger as _, number};

/// Both of them.
pub const ELEMENTS: &[&Entry] = &[&SOURCE, &SINK];

/// Most sessions: each is a host of its own.
pub const SESSIONS_MAX: u32 = 1 << 16;

/// Where the session's number is in a packet: the end of the source's address.
const HOST: std::ops::Range<usize> = 28..30;

/// A change from one process of the function to the next, as packets show it.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// When the first packet of the next one was back.
    pub at: Instant,
    /// Packets in between that never came.
    pub lost: u64,
}

/// What came back.
#[derive(Debug, Default)]
pub struct Ledger {
    changes: Mutex<Vec<Change>>,
    /// Packets that the source made.
    pub made: Counter,
    /// Packets that came back.
    pub back: Counter,
    /// Packets that never came although their process lived, or came behind later ones.
    pub astray: Counter,
    /// Packets by which a session began anew.
    pub forgotten: Counter,
    /// The source makes no more.
    pub is_over: AtomicBool,
}

impl ledger::Ledger for Ledger {
    const BENCH: &'static str = "kills";
}

impl Ledger {
    /// All changes so far; the first process is not one.
    pub fn changes(&self) -> MutexGuard<'_, Vec<Change>> {
        self.changes.lock()
    }
}

static SOURCE: Entry = Entry::new(
    Spec {
        name: "KillsSource",
        topic: Topic::Nf,
        summary: "numbered 64-byte UDP packets of many sessions in turn, at a rate",
        ports: "0/1",
        processing: "/h",
        args: &[
            Arg::required("SESSIONS", Ty::UInt, "how many sessions"),
            Arg::required("RATE", Ty::UInt, "packets a second"),
        ],
        threading: Threading::Task,
        ..Spec::DEFAULT
    },
    |args| {
        Ok(Box::new(Source {
            ledger: Ledger::of(args)?,
            sessions: args.get::<u32>("SESSIONS")?.clamp(1, SESSIONS_MAX),
            gap_ns: 1e9 / f64::from(args.get::<u32>("RATE")?.max(1)),
            begin: None,
            frames: Frames::new(),
            batch: Batch::with_room(),
        }))
    },
);

/// See the entry.
struct Source {
    ledger: Arc<Ledger>,
    sessions: u32,
    gap_ns: f64,
    begin: Option<i64>,
    frames: Frames,
    batch: Batch,
}

impl Element for Source {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        // Relaxed: some packets more do not matter.
        if self.ledger.is_over.load(Ordering::Relaxed) {
            return Run::Idle;
        }
        let begin = *self.begin.get_or_insert(cx.now());
        let made = self.ledger.made.get();
        let due = ((cx.now() - begin) as f64 / self.gap_ns) as u64;
        let count = due.saturating_sub(made).min(BURST as u64);
        for at in 0..count {
            let number = made + at;
            let session = (number % u64::from(self.sessions)) as u32;
            let frame = self.frames.set(at as usize, session);
            frame[NUMBER].copy_from_slice(&number.to_be_bytes());
        }
        self.frames.fill(count as usize, &mut self.batch);
        self.ledger.made.add(self.batch.len() as u64);
        cx.emit_all(0, &mut self.batch);
        match due > made + count {
            true => Run::Again,
            false => Run::At(begin + ((made + count + 1) as f64 * self.gap_ns) as i64),
        }
    }
}

static SINK: Entry = Entry::new(
    Spec {
        name: "KillsSink",
        topic: Topic::Nf,
        summary: "looks which process had packets, and frees them",
        ports: "1/0",
        processing: "h/",
        ..Spec::DEFAULT
    },
    |args| {
        let counts = vec![0; SESSIONS_MAX as usize];
        Ok(Box::new(Sink { ledger: Ledger::of(args)?, process: 0, next: 0, counts }))
    },
);

/// See the entry.
struct Sink {
    ledger: Arc<Ledger>,
    /// That of the last packet; 0 before the first.
    process: u64,
    /// The number that the next packet has if none is lost.
    next: u64,
    /// By session.
    counts: Vec<u32>,
}

impl Sink {
    fn look(&mut self, bytes: &[u8]) {
        let word = |range| number(bytes, range);
        let (process, count, nth) = (word(PROCESS), word(COUNT) as u32, word(NUMBER));
        let ledger = &self.ledger;
        let lost = nth.saturating_sub(self.next);
        if process == self.process || self.process == 0 {
            ledger.astray.add(lost + u64::from(nth < self.next));
        } else {
            ledger.changes().push(Change { at: Instant::now(), lost });
        }
        (self.process, self.next) = (process, nth + 1);
        if let Some(before) = self.counts.get_mut(word(HOST) as usize) {
            ledger.forgotten.add(u64::from(count <= *before));
            *before = count;
        }
    }
}

impl Element for Sink {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.iter() {
            self.look(packet.data());
        }
        self.ledger.back.add(batch.len() as u64);
        batch.clear();
    }
}
