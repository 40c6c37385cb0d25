//! How long packets are with a function.

use thruway_elements_support::durations::Durations;
use thruway_packet::cycles;

/// A histogram of times. One batch at a time is timed, by the cycle counter: from its publication
/// to the return of its last packet.
#[derive(Debug)]
pub(super) struct Latency {
    durations: Durations,
    /// When the timed batch was published, and how many packets will have come back by its end.
    timed: Option<(u64, u64)>,
    /// Cycle counter and present time (nanoseconds) when the clock was last compared.
    origin: (u64, i64),
    ns_per_cycle: f64,
}

/// Time after which the clocks are compared again, nanoseconds: long against the steps in which
/// the engine's time goes.
const COMPARE_NS: i64 = 10_000_000;

/// Nanoseconds of a cycle until the clocks were compared: of a processor of 2.5 GHz.
const GUESS: f64 = 0.4;

/// A batch that took so many nanoseconds is late: the lower limit of a bucket.
const LATE_NS: u64 = 1 << 20;

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            durations: Durations::default(),
            timed: None,
            origin: (0, 0),
            ns_per_cycle: GUESS,
        }
    }
}

impl Latency {
    /// A batch was published; with it, `put` packets in all were put.
    #[inline]
    pub(super) fn published(&mut self, put: u64) {
        if self.timed.is_none() {
            self.timed = Some((cycles(), put));
        }
    }

    /// So many packets in all have come back.
    #[inline]
    pub(super) fn returned(&mut self, back: u64, now: i64) {
        if let Some((since, until)) = self.timed
            && back >= until
        {
            let at = cycles();
            self.timed = None;
            self.compare(at, now);
            self.count(at.saturating_sub(since));
        }
    }

    /// What is timed does not come back.
    pub(super) fn forget(&mut self) {
        self.timed = None;
    }

    fn compare(&mut self, at: u64, now: i64) {
        let (cycles, ns) = (at.saturating_sub(self.origin.0), now.saturating_sub(self.origin.1));
        if self.origin.0 == 0 {
            self.origin = (at, now);
        } else if ns >= COMPARE_NS && cycles > 0 {
            self.ns_per_cycle = ns as f64 / cycles as f64;
            self.origin = (at, now);
        }
    }

    fn count(&mut self, cycles: u64) {
        self.durations.count((cycles as f64 * self.ns_per_cycle) as u64);
    }

    /// Batches that were timed.
    pub(super) fn timed_count(&self) -> u64 {
        self.durations.count_from(0)
    }

    /// Those of them that took [`LATE_NS`] or longer.
    pub(super) fn late_count(&self) -> u64 {
        self.durations.count_from(LATE_NS)
    }

    /// A line per bucket, `<LIMIT COUNT`: the limit in nanoseconds.
    pub(super) fn text(&self) -> String {
        self.durations.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_batch_at_a_time_is_counted_when_its_last_packet_is_back() {
        let mut latency = Latency::default();
        latency.published(10);
        latency.published(20);
        latency.returned(9, 0);
        assert!(latency.text().lines().all(|line| line.ends_with(" 0")));
        latency.returned(10, 0);
        latency.returned(20, 0);
        assert_eq!(latency.text().lines().filter(|line| line.ends_with(" 1")).count(), 1);
        assert_eq!((latency.timed_count(), latency.late_count()), (1, 0));
    }
}
