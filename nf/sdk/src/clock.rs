//! Time, read once in a batch at most.

use rustix::time::{ClockId, clock_gettime};

/// The system's monotonic clock, and what it said last.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    now_ns: Option<u64>,
}

impl Clock {
    /// Nanoseconds since an unknown past; the same for all of a batch.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        match self.now_ns {
            Some(now) => now,
            None => self.read(),
        }
    }

    /// Reads the clock.
    pub fn read(&mut self) -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        // A monotonic clock is not negative, and 2^64 nanoseconds are 584 years.
        let now =
            (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64);
        self.now_ns = Some(now);
        now
    }

    /// Makes the next question read it afresh.
    #[inline]
    pub fn forget(&mut self) {
        self.now_ns = None;
    }
}
