//! A data plane that runs.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process::Process;
use super::remote::Remote;

/// First wait between two looks at one that does not answer yet; it doubles.
const FIRST_CHECK: Duration = Duration::from_millis(5);
/// Longest wait between two looks at one that does not answer.
const SLOW_CHECK: Duration = Duration::from_secs(1);
/// Wait between two looks at one that answers.
const CALM_CHECK: Duration = Duration::from_secs(10);

/// A data plane that runs.
pub(super) struct Plane {
    /// Its process.
    pub(super) process: Process,
    /// When it was started; `None` if an earlier manager did that.
    pub(super) started: Option<Instant>,
    /// Where the log ended when it was taken.
    pub(super) log_start: u64,
    taken: Instant,
    answers: bool,
    answered: bool,
    check_wait: Duration,
    check_at: Instant,
    swap_at: Instant,
    kill_at: Option<Instant>,
}

impl Plane {
    /// A process that was started now, or found.
    pub(super) fn new(process: Process, is_new: bool, log_start: u64) -> Plane {
        let now = Instant::now();
        Plane {
            process,
            started: is_new.then_some(now),
            log_start,
            taken: now,
            answers: false,
            answered: false,
            check_wait: FIRST_CHECK,
            check_at: now,
            swap_at: now,
            kill_at: None,
        }
    }

    /// Its control socket.
    pub(super) fn remote<'a>(&self, socket: &'a Path) -> Remote<'a> {
        Remote { socket, pid: self.process.pid() }
    }

    /// How long until it is to be looked at.
    pub(super) fn next_check(&self) -> Duration {
        let now = Instant::now();
        let swap = self.swap_at.checked_duration_since(now).unwrap_or(Duration::MAX);
        self.check_at.saturating_duration_since(now).min(swap)
    }

    /// Whether it answers, if it is time to look.
    pub(super) fn check(&mut self, socket: &Path) -> Option<Result<(), String>> {
        if Instant::now() < self.check_at {
            return None;
        }
        let answer = self.remote(socket).check();
        self.answers = answer.is_ok();
        self.answered |= self.answers;
        let wait = match self.answers {
            true => {
                self.check_wait = FIRST_CHECK;
                CALM_CHECK
            }
            false => {
                let wait = self.check_wait;
                self.check_wait = (wait * 2).min(SLOW_CHECK);
                wait
            }
        };
        self.check_at = Instant::now() + wait;
        Some(answer)
    }

    /// Whether it answered at any time.
    pub(super) fn has_answered(&self) -> bool {
        self.answered
    }

    /// Whether it should have answered: it did before, or was given `limit` to begin.
    pub(super) fn is_late(&self, limit: Duration) -> bool {
        self.answered || self.taken.elapsed() > limit
    }

    /// Whether a hot swap may be tried.
    pub(super) fn may_swap(&self) -> bool {
        Instant::now() >= self.swap_at
    }

    /// Has no hot swap tried for a while.
    pub(super) fn swap_later(&mut self, wait: Duration) {
        self.swap_at = Instant::now() + wait;
    }

    /// Whether it is to end.
    pub(super) fn is_ending(&self) -> bool {
        self.kill_at.is_some()
    }

    /// Asks it to end, and ends it by force `limit` after the first call. How long to wait for its
    /// end before the next call.
    pub(super) fn end(&mut self, limit: Duration) -> Duration {
        let now = Instant::now();
        let kill_at = *self.kill_at.get_or_insert_with(|| {
            self.process.signal(Signal::TERM);
            // A stopped process gets no other signal.
            self.process.signal(Signal::CONT);
            now + limit
        });
        if now >= kill_at {
            self.process.signal(Signal::KILL);
            return Duration::from_secs(1);
        }
        kill_at - now
    }
}
