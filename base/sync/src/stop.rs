//! Requests to end runs, which none can clear.

use crate::atomic::{AtomicU64, Ordering};

/// One run of something that runs several times. The first is number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunNumber(u64);

impl RunNumber {
    /// The run after this one.
    #[must_use]
    pub fn next(self) -> RunNumber {
        RunNumber(self.0 + 1)
    }

    /// Level at which this run pauses.
    fn paused(self) -> u64 {
        2 * self.0
    }

    /// Level at which this run is stopped.
    fn stopped(self) -> u64 {
        2 * self.0 + 1
    }
}

/// Level at which no run continues, and none begins.
const ENDED: u64 = u64::MAX;

/// The runs that must end: a level that only rises. A request therefore never clears another one,
/// and nothing withdraws a request. A later run continues because its number is above the level.
///
/// The owner numbers the runs: [`StopLevel::current`] is the present run or, between two runs, the
/// next one. When all threads of a run have ended, the owner calls [`StopLevel::finish`].
///
/// | level | request | what it ends |
/// |---|---|---|
/// | 2 n | [`StopLevel::pause`] | run n, which something may continue as run n + 1 |
/// | 2 n + 1 | [`StopLevel::stop`] | run n, for good; the owner may begin run n + 1 |
/// | maximum | [`StopLevel::end`] | all runs |
#[derive(Debug)]
pub struct StopLevel {
    /// Number of the current run. Only the owner writes it.
    run: AtomicU64,
    level: AtomicU64,
}

impl Default for StopLevel {
    fn default() -> StopLevel {
        StopLevel { run: AtomicU64::new(1), level: AtomicU64::new(0) }
    }
}

impl StopLevel {
    /// The present run, or the next one.
    #[inline]
    pub fn current(&self) -> RunNumber {
        // Acquire: see `finish`.
        RunNumber(self.run.load(Ordering::Acquire))
    }

    /// Pauses a run. No effect on a run that is over, or on later ones.
    pub fn pause(&self, run: RunNumber) {
        self.raise(run.paused());
    }

    /// Stops a run. No effect on a run that is over, or on later ones.
    pub fn stop(&self, run: RunNumber) {
        self.raise(run.stopped());
    }

    /// Ends the current run and lets no further one begin.
    pub fn end(&self) {
        self.raise(ENDED);
    }

    /// The threads of `run` have ended: requests from now on are about the next run.
    pub fn finish(&self, run: RunNumber) {
        // Release: a thread that sees the next number sees all effects of this run's threads.
        self.run.store(run.next().0, Ordering::Release);
    }

    /// Whether the threads of the current run must end. One or two loads, no write.
    #[inline]
    pub fn is_due(&self) -> bool {
        // Relaxed: the number does not change while a thread of the run asks.
        self.level() >= RunNumber(self.run.load(Ordering::Relaxed)).paused()
    }

    /// Whether `run` was stopped, not merely paused.
    pub fn is_stopped(&self, run: RunNumber) -> bool {
        self.level() >= run.stopped()
    }

    /// Whether all runs must end.
    pub fn is_ended(&self) -> bool {
        self.level() == ENDED
    }

    fn level(&self) -> u64 {
        // Acquire, with `raise`: a thread that sees a request sees its author's earlier writes.
        self.level.load(Ordering::Acquire)
    }

    fn raise(&self, level: u64) {
        // AcqRel, not a store: two requests at once leave the higher one.
        self.level.fetch_max(level, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_its_own_run_only() {
        let stops = StopLevel::default();
        let first = stops.current();
        assert!(!stops.is_due());
        stops.pause(first);
        assert!(stops.is_due() && !stops.is_stopped(first) && !stops.is_ended());
        stops.finish(first);
        assert!(!stops.is_due());
        // Late requests, about a run that is over.
        stops.stop(first);
        stops.pause(first);
        assert!(!stops.is_due() && stops.is_stopped(first));
        assert!(!stops.is_stopped(stops.current()));
    }

    #[test]
    fn no_request_lowers_a_higher_one() {
        let stops = StopLevel::default();
        let first = stops.current();
        stops.stop(first);
        stops.pause(first);
        assert!(stops.is_stopped(first));
        // Before it begins, too.
        stops.stop(first.next());
        stops.finish(first);
        assert!(stops.is_due());
        stops.end();
        stops.pause(first);
        stops.finish(first.next());
        assert!(stops.is_due() && stops.is_ended() && stops.is_stopped(stops.current()));
    }
}
