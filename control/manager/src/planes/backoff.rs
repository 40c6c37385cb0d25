//! How long to wait before a data plane that failed soon after its start is started again.

use std::time::{Duration, Instant};

/// One that ends within this time of its start failed soon.
const SOON: Duration = Duration::from_secs(10);
/// Wait after the first such failure.
const FIRST: Duration = Duration::from_millis(100);
/// Longest wait.
const LONGEST: Duration = Duration::from_secs(10);

/// Failures in a row, each soon after its start.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// When the next start may be.
    next: Option<Instant>,
}

impl Backoff {
    /// A data plane that had run since `started` ended at `now`.
    pub(super) fn ended(&mut self, started: Option<Instant>, now: Instant) {
        let soon = started.is_some_and(|started| now.duration_since(started) < SOON);
        if soon {
            self.failed(now);
        } else {
            // It had worked for long, or before this manager started: at once.
            *self = Backoff::default();
        }
    }

    /// A start failed at `now`.
    pub(super) fn failed(&mut self, now: Instant) {
        let doublings = self.failures.min(31);
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now + FIRST.saturating_mul(1 << doublings).min(LONGEST));
    }

    /// Forgets all failures: something else is to be started.
    pub(super) fn reset(&mut self) {
        *self = Backoff::default();
    }

    /// How long to wait at `now`; nothing if it may be started.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let left = self.next?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_a_bound_and_a_long_run_ends_the_row() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.wait(now), None);
        let waits: Vec<u128> = (0..9)
            .map(|_| {
                backoff.ended(Some(now), now + Duration::from_secs(1));
                let wait = backoff.wait(now + Duration::from_secs(1));
                wait.expect("it failed soon").as_millis()
            })
            .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(backoff.failures(), 9);
        assert_eq!(backoff.wait(now + Duration::from_secs(11)), None, "the time came");
        for _ in 0..100 {
            backoff.failed(now);
        }
        assert_eq!(backoff.wait(now), Some(LONGEST));
        backoff.ended(Some(now), now + SOON);
        assert_eq!((backoff.wait(now), backoff.failures()), (None, 0));
        backoff.failed(now);
        backoff.ended(None, now);
        assert_eq!(backoff.wait(now), None, "an adopted one had run before");
    }
}
