//! The latest lines, for clients that read at their own pace.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use thruway_sync::atomic::{AtomicBool, Ordering};

/// Bytes that a client may be behind (Click's figure).
pub(super) const BACKLOG_MAX: usize = 500_000;

/// The end of the stream of lines, which any thread adds to.
pub(super) struct Log {
    kept: Mutex<Kept>,
    /// Whether anybody is to read it.
    wanted: AtomicBool,
    news: AtomicBool,
    /// Ends the sleep of the thread that serves the clients.
    waker: OwnedFd,
}

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Bytes said so far.
    end: u64,
}

impl Log {
    pub(super) fn new() -> std::io::Result<Log> {
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (wanted, news) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Log { kept: Mutex::default(), wanted, news, waker })
    }

    /// The descriptor that is readable when there are news.
    pub(super) fn waker(&self) -> &OwnedFd {
        &self.waker
    }

    /// Begins or ends to keep lines.
    pub(super) fn set_wanted(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Adds a line.
    pub(super) fn add(&self, line: &str) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = self.kept.lock();
        kept.bytes.extend(line.bytes().chain([b'\n']));
        let excess = kept.bytes.len().saturating_sub(BACKLOG_MAX);
        kept.bytes.drain(..excess);
        kept.end += line.len() as u64 + 1;
        drop(kept);
        if !self.news.swap(true, Ordering::AcqRel) {
            // A full counter is readable all the same.
            let _ = write(&self.waker, &1u64.to_ne_bytes());
        }
    }

    /// To be called before the log is read: what is added from now on is news.
    pub(super) fn clear_news(&self) {
        // The order matters: a line added after the swap writes the counter again, and one added
        // before it is in the log by now. In the reverse order, the read could consume a counter
        // whose flag stays up, and nothing would end the next sleep.
        let _ = read(&self.waker, &mut [0; 8]);
        self.news.swap(false, Ordering::AcqRel);
    }

    /// Bytes said so far.
    pub(super) fn end(&self) -> u64 {
        self.kept.lock().end
    }

    /// Puts up to `max` bytes from position `from` on into `out`; false if they are gone.
    pub(super) fn copy(&self, from: u64, max: usize, out: &mut Vec<u8>) -> bool {
        out.clear();
        let kept = self.kept.lock();
        let behind = usize::try_from(kept.end.saturating_sub(from)).unwrap_or(usize::MAX);
        let Some(at) = kept.bytes.len().checked_sub(behind) else { return false };
        out.extend(kept.bytes.range(at..).take(max));
        true
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// A client that reads in time gets all lines since then, in pieces of any size; one that
        /// is too far behind gets an error.
        #[test]
        fn readers_get_what_was_said(
            steps in proptest::collection::vec((0usize..200_000, 1usize..300_000), 1..9),
        ) {
            let log = Log::new().expect("an event counter");
            log.add("no client");
            prop_assert_eq!(log.end(), 0);
            log.set_wanted(true);
            let (mut model, mut position, mut out) = (Vec::new(), 0, Vec::new());
            for (len, max) in steps {
                let line = "abcdefg".repeat(len / 7);
                log.add(&line);
                model.extend_from_slice(format!("{line}\n").as_bytes());
                let rest = &model[position..];
                let there = log.copy(position as u64, max, &mut out);
                prop_assert_eq!(there, rest.len() <= BACKLOG_MAX);
                if rest.len() <= BACKLOG_MAX {
                    prop_assert_eq!(&out[..], &rest[..max.min(rest.len())]);
                    position += out.len();
                } else {
                    position = model.len();
                }
            }
            prop_assert_eq!(log.end(), model.len() as u64);
            let has_news = || read(&log.waker, &mut [0; 8]).is_ok();
            log.clear_news();
            prop_assert!(!has_news());
            log.add("more");
            prop_assert!(has_news());
        }
    }

    /// Lines come while their reader is about to sleep.
    #[test]
    fn no_line_is_slept_through() {
        const LINES: u64 = 300_000;
        let log = Log::new().expect("an event descriptor");
        log.set_wanted(true);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..LINES).for_each(|_| log.add("x")));
            let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
            while log.end() < 2 * LINES {
                let mut news = [PollFd::new(log.waker(), PollFlags::IN)];
                assert_eq!(poll(&mut news, Some(&patience)), Ok(1), "at {}", log.end());
                log.clear_news();
            }
        });
    }
}
