//! Latencies: of sampled packets, of waits.

use std::time::Duration;

/// Nanoseconds, sorted.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Latencies(Vec<f64>);

/// Points of a distribution that are reported, percent.
pub const PERCENTILES: [f64; 12] =
    [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

impl Latencies {
    /// From times in ticks of so many nanoseconds.
    pub fn new(ticks: Vec<u64>, ns_per_tick: f64) -> Latencies {
        let mut ns: Vec<f64> = ticks.into_iter().map(|t| t as f64 * ns_per_tick).collect();
        ns.sort_by(f64::total_cmp);
        Latencies(ns)
    }

    /// All of several runs.
    pub fn merged<'a>(runs: impl Iterator<Item = &'a Latencies>) -> Latencies {
        let mut ns: Vec<f64> = runs.flat_map(|run| run.0.iter().copied()).collect();
        ns.sort_by(f64::total_cmp);
        Latencies(ns)
    }

    /// How many were sampled.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The mean; 0 of nothing.
    pub fn mean_ns(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// How many took longer.
    pub fn above(&self, ns: f64) -> usize {
        self.0.len() - self.0.partition_point(|latency| *latency <= ns)
    }

    /// The latency that so many percent do not exceed (nearest rank); 0 of nothing.
    pub fn percentile_ns(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.clamp(1, self.0.len().max(1)) - 1).copied().unwrap_or(0.0)
    }
}

/// Half, 90 and 99 percent of the times do not exceed these, and none the last; milliseconds.
pub fn points_ms(times: impl Iterator<Item = Duration>) -> [f64; 4] {
    let ns = times.map(|time| time.as_nanos() as u64).collect();
    let all = Latencies::new(ns, 1e-6);
    [50.0, 90.0, 99.0, 100.0].map(|percent| all.percentile_ns(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let latencies = Latencies::new((1..=200).rev().collect(), 0.5);
        assert_eq!((latencies.count(), latencies.mean_ns()), (200, 50.25));
        let at = [0.0, 0.5, 50.0, 99.0, 100.0].map(|percent| latencies.percentile_ns(percent));
        assert_eq!(at, [0.5, 0.5, 50.0, 99.0, 100.0]);
        assert_eq!([0.0, 50.0, 50.5, 100.0].map(|ns| latencies.above(ns)), [200, 100, 99, 0]);
        let none = Latencies::default();
        assert_eq!((none.mean_ns(), none.percentile_ns(50.0)), (0.0, 0.0));
        let both = Latencies::merged([&latencies, &Latencies::new(vec![1000], 1.0)].into_iter());
        assert_eq!((both.count(), both.percentile_ns(100.0)), (201, 1000.0));
    }
}
