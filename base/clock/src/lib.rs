//! Time from the processor's cycle counter, disciplined by the system's clock.
//!
//! Asking the system costs some 40 ns, reading the counter 10. A [`Clock`] finds out how fast the
//! counter runs (stabilisation), whether it agrees with the system's clock where this thread runs
//! (synchronisation), and then reads the time from the counter alone, correcting itself once a
//! second (running). If that does not work it follows the system's monotonic clock, towards the
//! system's time: always a time, never backwards, and never standing still, whatever the system's
//! clock is set to. (Section 3.4 of the thesis of FastClick and MiddleClick, Barbette 2018.)
//!
//! *Absent here:* any clock. A [`Source`] is passed in, so that tests can have counters that drift,
//! jump and disagree.
#![forbid(unsafe_code)]

mod clock;
mod converge;
mod pair;
mod rate;
mod settings;
mod steady;

use thruway_sync::atomic::{AtomicU64, Ordering};

pub use clock::{Clock, ClockStats, Phase, Why};
pub use rate::Rate;
pub use settings::Settings;

/// The time sources of a [`Clock`].
pub trait Source {
    /// The cycle counter of the processor that the calling thread runs on.
    fn cycles(&mut self) -> u64;

    /// The system's clock, nanoseconds since the Unix epoch. It may be set, forward and back.
    fn system(&mut self) -> i64;

    /// Nanoseconds since some moment, by a clock that is never set.
    fn monotonic(&mut self) -> i64;
}

/// The rate that one thread has measured, for the others: processors with usable counters have the
/// same rate on all cores. Its users take it on trial (synchronisation).
#[derive(Debug, Default)]
pub struct Reference(AtomicU64);

impl Reference {
    /// The rate, once some thread has found it.
    pub(crate) fn get(&self) -> Option<Rate> {
        // Relaxed, here and below: one word, which orders nothing else.
        Rate::from_word(self.0.load(Ordering::Relaxed))
    }

    /// Another thread's rate is replaced: the latest is as good as any.
    pub(crate) fn publish(&self, rate: Rate) {
        self.0.store(rate.word(), Ordering::Relaxed);
    }

    /// It turned out wrong: the next thread measures another one.
    pub(crate) fn withdraw(&self, rate: Rate) {
        let _ = self.0.compare_exchange(rate.word(), 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
