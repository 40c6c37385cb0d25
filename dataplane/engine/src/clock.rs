//! The engine's time: the system's, or a simulated one that jumps to the next event.

use std::time::{SystemTime, UNIX_EPOCH};

/// Which time elements see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockKind {
    /// The system's real-time clock.
    Real,
    /// Begins at this many nanoseconds since the epoch and moves only when nothing else can be
    /// done, to the next timer. Runs are repeatable and take no longer than their work.
    Simulated(i64),
}

impl ClockKind {
    /// The time to begin with.
    pub(crate) fn start(self) -> i64 {
        match self {
            ClockKind::Real => real_now(),
            ClockKind::Simulated(start) => start,
        }
    }
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn real_now() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(_) => 0,
    }
}
