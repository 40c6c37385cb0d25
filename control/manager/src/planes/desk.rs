//! What a worker is to bring about, and how it learns of a change.

use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{BorrowedFd, OwnedFd};

use crate::Asked;

/// What a worker is to bring about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goal {
    /// Nobody asked for the chain: it is watched, and nothing is done to it.
    Unknown,
    /// It is to be as this says.
    As(Box<Asked>),
    /// It is to end, and its directory to go.
    Deleted,
    /// The worker is to leave; the data plane runs on.
    Left,
}

/// The goal of one worker.
#[derive(Debug)]
pub(super) struct Desk {
    /// `None` when the worker has gone.
    goal: Mutex<Option<Goal>>,
    wake: OwnedFd,
}

impl Desk {
    /// With this goal.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new(goal: Goal) -> std::io::Result<Desk> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Desk { goal: Mutex::new(Some(goal)), wake })
    }

    /// The goal; `None` when the worker has gone.
    pub(super) fn goal(&self) -> Option<Goal> {
        self.goal.lock().clone()
    }

    /// Gives another goal; false when the worker has gone.
    pub(super) fn set(&self, next: Goal) -> bool {
        let mut goal = self.goal.lock();
        let Some(now) = goal.as_mut() else { return false };
        if *now != next {
            *now = next;
            // It fails only where it is full, and then it wakes.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        true
    }

    /// Closes the desk if the goal is still `done`; then the worker must go.
    pub(super) fn close(&self, done: &Goal) -> bool {
        let mut goal = self.goal.lock();
        let is_done = goal.as_ref() == Some(done);
        if is_done {
            *goal = None;
        }
        is_done
    }

    /// Sleeps until there is another goal, a process ended, or a time is over; whether it was one
    /// of the first two.
    pub(super) fn wait(&self, end: Option<BorrowedFd<'_>>, limit: Duration) -> bool {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        if let Some(end) = &end {
            fds.push(PollFd::new(end, PollFlags::IN));
        }
        // Rounded up, so that the time is over then.
        let nanos = i64::from(limit.subsec_nanos()) + 1_000_000;
        let seconds = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX / 2);
        let limit =
            Timespec { tv_sec: seconds + nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 };
        // An interrupted sleep is one that was short.
        let ready = poll(&mut fds, Some(&limit)).unwrap_or(0);
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        ready > 0
    }
}
