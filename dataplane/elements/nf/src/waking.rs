//! When a function that sleeps is woken: as late as packets may wait, as early as it costs nothing.
//!
//! A wake-up is a system call here and a sleep less there, some microseconds in all. So packets
//! are gathered (section 3.3 of the exchange paper: by a threshold and an age that somebody must
//! choose). The rules, in the order in which they are looked at:
//!
//! 1. Half of the ring waits: the function is woken. That is the rule under saturation.
//! 2. Packets came in this round: more may come in the next, the function is left asleep.
//! 3. Nothing came in this round, and few came in the last LATENCY: nothing is worth waiting for.
//!    The function is woken.
//! 4. Nothing came in some rounds, and the oldest packet has waited for an eighth of LATENCY: the
//!    thread has time to spare. The function is woken.
//! 5. The oldest packet has waited for LATENCY, or the thread is about to sleep: the function is
//!    woken.
//!
//! With MASTER_THRESHOLD or AGE those two decide, as in the paper.

use thruway_element::{ArgError, Args};
use thruway_exchange::Tuning;

use super::settings::time;

/// Packets in one LATENCY from which on gathering pays.
const WORTH_WAITING_FOR: u64 = 4;
/// Rounds without packets after which the thread has time to spare.
const SPARE_ROUNDS: u32 = 8;
/// The share of LATENCY for which a thread with time to spare gathers.
const SPARE_SHARE: i64 = 8;

/// What decides when a function that sleeps is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// MASTER_THRESHOLD and AGE, as [`Tuning`] has them.
    Fixed,
    /// The rules above, with LATENCY in nanoseconds.
    Adaptive { latency: i64 },
}

impl Policy {
    /// As the arguments say, with the thresholds of a link of so many slots.
    pub fn of(args: &Args<'_>, slots: u32) -> Result<(Policy, Tuning), ArgError> {
        let threshold: Option<u32> = args.opt("MASTER_THRESHOLD")?;
        let age = args.text("AGE").map(|_| time(args, "AGE")).transpose()?;
        let latency = time(args, "LATENCY")?.as_nanos() as u64;
        if threshold.is_none() && age.is_none() {
            let master_threshold = (slots / 2).saturating_sub(1);
            let tuning = Tuning { master_threshold, age_threshold: latency };
            let latency = i64::try_from(latency).unwrap_or(i64::MAX);
            return Ok((Policy::Adaptive { latency }, tuning));
        }
        let age = age.map_or(AGE_NS, |age| age.as_nanos() as u64);
        let master_threshold = threshold.unwrap_or(0);
        let tuning = Tuning { master_threshold, age_threshold: age };
        Ok((Policy::Fixed, tuning))
    }
}

/// AGE where only MASTER_THRESHOLD is given, nanoseconds.
pub(super) const AGE_NS: u64 = 100_000;

/// What one thread knows of the packets that the function may have to be woken for.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Turns of the element since packets were shown.
    empty: u32,
    /// Packets put when this stretch of LATENCY began, and when that was.
    begin: (u64, i64),
    /// Whether many came in the stretch before.
    comes_fast: bool,
}

impl Gathering {
    /// Packets were shown to the function.
    #[inline]
    pub fn shown(&mut self) {
        self.empty = 0;
    }

    /// The element's turn at `now`, with `put` packets put in all, of which the function may sleep
    /// through some that were shown from `since` on. Whether it is to be woken if it sleeps.
    #[inline]
    pub fn is_due(&mut self, latency: i64, since: Option<i64>, put: u64, now: i64) -> bool {
        let (before, began) = self.begin;
        if now.saturating_sub(began) >= latency {
            let stretches = (now.saturating_sub(began) / latency.max(1)) as u64;
            let worth = WORTH_WAITING_FOR.saturating_mul(stretches);
            self.comes_fast = put.wrapping_sub(before) >= worth;
            self.begin = (put, now);
        }
        let empty = self.empty;
        self.empty = empty.saturating_add(1);
        let Some(since) = since else { return false };
        let waited = now.saturating_sub(since);
        waited >= latency
            || (empty > 0 && !self.comes_fast)
            || (empty >= SPARE_ROUNDS && waited >= latency / SPARE_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: i64 = 20_000;

    /// One thread's element, and the packets for which the function was not looked at.
    #[derive(Default)]
    struct Link {
        gathering: Gathering,
        put: u64,
        since: Option<i64>,
    }

    impl Link {
        /// Shows `count` packets, if any, at `now` and takes the turn of that round. If the
        /// function is woken, how long the oldest has waited.
        fn round(&mut self, count: u64, now: i64) -> Option<i64> {
            if count > 0 {
                self.put += count;
                self.gathering.shown();
                self.since.get_or_insert(now);
            }
            let is_due = self.gathering.is_due(LATENCY, self.since, self.put, now);
            is_due.then(|| now - self.since.take().expect("there is something to wake it for"))
        }
    }

    #[test]
    fn a_lone_packet_waits_for_the_next_round_only() {
        let mut link = Link::default();
        for now in (1..10).map(|nth| nth * 10 * LATENCY) {
            assert_eq!(link.round(1, now), None);
            assert_eq!(link.round(0, now + 100), Some(100));
            assert_eq!(link.round(0, now + 200), None, "there is nothing to wake it for");
        }
    }

    #[test]
    fn while_packets_come_they_are_gathered_for_latency_at_most() {
        let mut link = Link::default();
        let waited = (0..).step_by(100).find_map(|now| link.round(32, now));
        assert_eq!(waited, Some(LATENCY));
    }

    /// One packet a microsecond, with empty rounds between.
    #[test]
    fn what_comes_fast_is_gathered_although_rounds_are_empty() {
        let mut link = Link::default();
        let rounds = (0..1_000_000).step_by(200);
        let woken = rounds.filter_map(|now| link.round(u64::from(now % 1_000 == 0), now)).count();
        assert!((45..=75).contains(&woken), "1,000 packets in 50 times LATENCY: {woken}");
    }

    /// One packet in 4 us, with many empty rounds between.
    #[test]
    fn a_thread_with_time_to_spare_gathers_for_an_eighth() {
        let mut link = Link::default();
        let rounds = (0..1_000_000).step_by(100);
        let waited = rounds.filter_map(|now| link.round(u64::from(now % 4_000 == 0), now));
        let longest = waited.max().expect("it is woken");
        assert!((LATENCY / 8..LATENCY / 4).contains(&longest), "{longest}");
    }
}
