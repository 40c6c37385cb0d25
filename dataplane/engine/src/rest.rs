//! A thread's state of its idle time.

use std::num::NonZeroU64;

use rustix::event::PollFd;

use crate::patience::{Idle, Patience};

/// The kernel may end a sleep so much later to save wake-ups, nanoseconds (its default: 50 us).
const SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).unwrap();

/// A thread's state of its present idle time.
pub(crate) struct Rest {
    pub patience: Patience,
    /// Rounds without work.
    pub rounds: u32,
    /// When the quiet began.
    pub since: i64,
    /// Whether it has announced its sleep, and whether it has slept in this idle time.
    pub lying: bool,
    pub slept: bool,
    /// Cycle counter at the end of the last round without work.
    pub rested: u64,
    /// Memory for the descriptors that it waits for.
    pub room: Vec<PollFd<'static>>,
}

impl Rest {
    pub fn new(idle: Idle) -> Rest {
        Rest {
            patience: Patience::new(idle),
            rounds: 0,
            since: 0,
            lying: false,
            slept: false,
            rested: 0,
            room: Vec::new(),
        }
    }
}

/// The kernel ends this thread's sleeps on time, as long as this lives.
pub(crate) struct OnTime;

impl OnTime {
    pub fn new() -> OnTime {
        // A kernel that refuses it ends sleeps later.
        let _ = rustix::thread::set_current_timer_slack(Some(SLACK_NS));
        OnTime
    }
}

impl Drop for OnTime {
    fn drop(&mut self) {
        // Back to the default.
        let _ = rustix::thread::set_current_timer_slack(None);
    }
}
