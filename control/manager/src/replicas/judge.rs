//! Whether a new version of a function is worse than the one before.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::spec::Canary;

/// Buckets of batches by their time: powers of two nanoseconds, as `Nf` has them.
pub const BUCKETS: usize = 27;
/// The limit of the lowest bucket, as a power of two.
const FIRST: u32 = 8;

/// What was counted of the replicas of a version since their processes began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Packets that they were given, those included that no longer found room.
    pub packets: u64,
    /// Packets that did not come back.
    pub lost: u64,
    /// Times that a process ended, hung, or broke the protocol.
    pub failures: u64,
    /// Batches by their time.
    pub batches: Vec<u64>,
}

/// How both versions did since a step began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pair {
    /// Counted since then: the old version, and the new.
    pub counts: [Counts; 2],
    /// Packets that wait for each replica of each, on average over the step.
    pub waiting: [f64; 2],
}

impl Counts {
    /// Adds what another replica counted.
    pub fn add(&mut self, other: &Counts) {
        self.packets += other.packets;
        self.lost += other.lost;
        self.failures += other.failures;
        self.batches.resize(self.batches.len().max(other.batches.len()), 0);
        for (sum, count) in self.batches.iter_mut().zip(&other.batches) {
            *sum += count;
        }
    }

    /// What was counted since `base`; `None` if counting began anew since then.
    pub fn since(&self, base: &Counts) -> Option<Counts> {
        let batches = (0..self.batches.len())
            .map(|at| self.batches[at].checked_sub(base.batches.get(at).copied().unwrap_or(0)));
        Some(Counts {
            packets: self.packets.checked_sub(base.packets)?,
            lost: self.lost.checked_sub(base.lost)?,
            failures: self.failures.checked_sub(base.failures)?,
            batches: batches.collect::<Option<_>>()?,
        })
    }

    fn lost_part(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.lost as f64 / self.packets as f64 }
    }

    /// The time within which 99 % of the batches came back: the limit of a bucket.
    fn p99(&self) -> Option<Duration> {
        let all: u64 = self.batches.iter().sum();
        if all == 0 {
            return None;
        }
        let mut left = all / 100;
        let slowest = self.batches.iter().enumerate().rev().find(|(_, count)| {
            let is_it = **count > left;
            left = left.saturating_sub(**count);
            is_it
        });
        slowest.map(|(at, _)| Duration::from_nanos(1 << (FIRST + at as u32)))
    }
}

/// Why the new version is worse, if it is. Without enough packets only failures count.
pub fn worse(pair: &Pair, canary: &Canary) -> Option<String> {
    let [old, new] = &pair.counts;
    if new.failures > canary.failures {
        return Some(format!(
            "its process failed {} times, and {} are allowed",
            new.failures, canary.failures
        ));
    }
    if new.packets < canary.packets {
        return None;
    }
    let (lost, before) = (new.lost_part(), old.lost_part());
    if lost > before + canary.drops {
        return Some(format!(
            "{:.2} % of its packets were lost or dropped, and {:.2} % of the old version's; {:.2} \
             % more are allowed",
            lost * 100.0,
            before * 100.0,
            canary.drops * 100.0
        ));
    }
    let [waited, waits] = pair.waiting;
    if let Some(limit) = canary.waiting
        && waits > limit as f64
        && waits > waited
    {
        return Some(format!(
            "{waits:.0} packets wait for it, {waited:.0} for the old version, and {limit} may"
        ));
    }
    let limit = canary.latency?;
    let slow = new.p99().filter(|slow| *slow > limit && old.p99().is_none_or(|was| was < *slow))?;
    let was = old.p99().map_or("unknown".to_owned(), |was| format!("{was:?}"));
    Some(format!(
        "99 % of its batches take up to {slow:?}, of the old version's {was}, and {limit:?} is \
         allowed"
    ))
}

/// Batches by their time, of the handler `latency`: a line `<LIMIT COUNT` each.
pub fn batches(text: &str) -> Vec<u64> {
    let count = |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse().ok());
    text.lines().take(BUCKETS).map(|line| count(line).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicas::CanarySpec;

    fn counts(packets: u64, lost: u64, failures: u64, batches: &[(usize, u64)]) -> Counts {
        let mut all = vec![0; BUCKETS];
        batches.iter().for_each(|(at, count)| all[*at] = *count);
        Counts { packets, lost, failures, batches: all }
    }

    fn canary(json: &str) -> Canary {
        let spec: CanarySpec = serde_json::from_str(json).expect("of that form");
        let spec = super::super::ReplicasSpec { canary: Some(spec), ..Default::default() };
        spec.canary().expect("good")
    }

    #[test]
    fn worse_is_what_exceeds_a_limit_and_the_old_version() {
        let limits = canary(r#"{"waiting": 10, "latency": "1ms"}"#);
        let of = |old: Counts, new: Counts, waiting| {
            worse(&Pair { counts: [old, new], waiting }, &limits)
        };
        let good = || counts(1000, 0, 0, &[(3, 100)]);
        assert_eq!(of(good(), good(), [0.0, 0.0]), None);
        // Both lose the same: the load, not the version.
        let lossy = || counts(1000, 500, 0, &[(3, 100)]);
        assert_eq!(of(lossy(), lossy(), [0.0, 0.0]), None);
        assert_eq!(of(lossy(), good(), [0.0, 0.0]), None);
        assert!(of(good(), lossy(), [0.0, 0.0]).is_some_and(|why| why.contains("50.00 %")));
        assert_eq!(of(good(), counts(1000, 9, 0, &[]), [0.0, 0.0]), None, "1 % is allowed");
        // A failure counts without packets, and nothing else does.
        assert!(of(good(), counts(0, 0, 1, &[]), [0.0, 0.0]).is_some());
        assert_eq!(of(good(), counts(99, 99, 0, &[]), [0.0, 0.0]), None);
        assert!(of(good(), good(), [3.0, 11.0]).is_some_and(|why| why.contains("11 packets")));
        assert_eq!(of(good(), good(), [12.0, 11.0]), None);
        // Two of a hundred batches took up to 2^20 ns.
        let slow = || counts(1000, 0, 0, &[(3, 98), (13, 2)]);
        assert!(of(good(), slow(), [0.0, 0.0]).is_some_and(|why| why.contains("2.097152ms")));
        assert_eq!(of(slow(), slow(), [0.0, 0.0]), None);
        assert_eq!(of(good(), counts(1000, 0, 0, &[(3, 99), (13, 1)]), [0.0, 0.0]), None);
    }

    #[test]
    fn counts_that_began_anew_are_no_difference() {
        let (before, now) = (counts(5, 1, 1, &[(2, 3)]), counts(9, 1, 1, &[(2, 4)]));
        assert_eq!(now.since(&before), Some(counts(4, 0, 0, &[(2, 1)])));
        assert_eq!(before.since(&now), None);
        assert_eq!(now.since(&Counts::default()), Some(now.clone()));
        let mut sum = Counts::default();
        [&before, &now].into_iter().for_each(|one| sum.add(one));
        assert_eq!(sum, counts(14, 2, 2, &[(2, 7)]));
        assert_eq!(batches("<256ns 3\n<512ns 4\n>= 5\n"), [3, 4, 5]);
    }
}
