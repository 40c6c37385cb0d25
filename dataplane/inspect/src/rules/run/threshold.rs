//! How often rules matched, by address: a table of fixed size.

use std::net::IpAddr;

use crate::rules::compiled::Compiled;
use crate::rules::run::facts::Facts;
use crate::rules::session::{ThresholdKind, Track};

/// Entries that one key may be in. When all are taken, the one with the oldest period is taken
/// over.
const ASSOCIATIVITY: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counter {
    rule: u32,
    address: Option<IpAddr>,
    /// When its period began, nanoseconds.
    began: i64,
    count: u32,
}

/// Counts of matches, and what follows from them.
#[derive(Debug)]
pub struct Thresholds {
    counters: Box<[Option<Counter>]>,
}

impl Thresholds {
    /// For this many counters, at least.
    pub fn new(counters: usize) -> Thresholds {
        let len = counters.max(ASSOCIATIVITY).next_power_of_two();
        Thresholds { counters: vec![None; len].into_boxed_slice() }
    }

    /// Counts a match, and returns whether the rule is obeyed and reported: `(obeyed, alerts)`.
    pub fn count(&mut self, number: u32, rule: &Compiled, facts: &Facts, now: i64) -> (bool, bool) {
        let Some(threshold) = rule.threshold else { return (true, true) };
        let address = match threshold.track {
            Track::BySource => Some(facts.source),
            Track::ByDestination => Some(facts.destination),
            Track::ByRule => None,
        };
        let period = i64::from(threshold.seconds) * 1_000_000_000;
        let counter = self.counter(number, address, now);
        if now.saturating_sub(counter.began) >= period {
            (counter.began, counter.count) = (now, 0);
        }
        counter.count = counter.count.saturating_add(1);
        let count = counter.count;
        match threshold.kind {
            ThresholdKind::Limit => (true, count <= threshold.count),
            ThresholdKind::Both => (true, count == threshold.count),
            ThresholdKind::Every => (true, count.is_multiple_of(threshold.count)),
            ThresholdKind::Filter => (count > threshold.count, count > threshold.count),
        }
    }

    fn counter(&mut self, rule: u32, address: Option<IpAddr>, now: i64) -> &mut Counter {
        let first = hash(rule, address) as usize & (self.counters.len() - 1) & !(ASSOCIATIVITY - 1);
        let set = &mut self.counters[first..first + ASSOCIATIVITY];
        let is_it =
            |it: &Option<Counter>| it.is_some_and(|it| it.rule == rule && it.address == address);
        let age = |at: &usize| set[*at].map_or(i64::MIN, |it| it.began);
        let at =
            set.iter().position(is_it).or_else(|| (0..ASSOCIATIVITY).min_by_key(age)).unwrap_or(0);
        let fresh = Counter { rule, address, began: now, count: 0 };
        if !is_it(&set[at]) {
            set[at] = None;
        }
        set[at].get_or_insert(fresh)
    }
}

/// Spreads keys; that someone finds keys of one set costs counts of those keys only.
fn hash(rule: u32, address: Option<IpAddr>) -> u64 {
    let bits = match address {
        None => 0,
        Some(IpAddr::V4(address)) => u128::from(address.to_bits()),
        Some(IpAddr::V6(address)) => address.to_bits(),
    };
    // Multiplier of Knuth, The Art of Computer Programming, volume 3, 6.4, for 64 bits.
    let mix =
        |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    mix(mix(mix(0, u64::from(rule)), bits as u64), (bits >> 64) as u64) >> 3
}
