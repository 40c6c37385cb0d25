//! Timers of a function.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

/// Which timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timer(u64);

impl Timer {
    /// Its number, from 0 in the order in which timers were set.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The timer of this number.
    pub fn from_number(number: u64) -> Timer {
        Timer(number)
    }
}

/// Those that are set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// When each is due, nanoseconds, earliest first; those cancelled are still here.
    due: BinaryHeap<Reverse<(u64, Timer)>>,
    /// Period of each that lives, nanoseconds; 0 for once.
    live: HashMap<Timer, u64>,
    count: u64,
}

impl Timers {
    /// A timer that is due at `at_ns`, and from then on every `period_ns` unless that is 0.
    pub fn set(&mut self, at_ns: u64, period_ns: u64) -> Timer {
        let timer = Timer(self.count);
        self.count += 1;
        self.live.insert(timer, period_ns);
        self.due.push(Reverse((at_ns, timer)));
        timer
    }

    /// Unsets it. False when it was not set any more.
    pub fn cancel(&mut self, timer: Timer) -> bool {
        let was_live = self.live.remove(&timer).is_some();
        // Without this, setting and cancelling for ever would grow the heap.
        if self.due.len() > 64 && self.due.len() > 2 * self.live.len() {
            let live = &self.live;
            self.due.retain(|Reverse((_, timer))| live.contains_key(timer));
        }
        was_live
    }

    /// Whether none is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When the next one is due, if any. (One that was cancelled may be meant.)
    #[inline]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes one that is due. A periodic one is set again, for its next time after now: times that
    /// were missed are not made up for.
    pub fn expire(&mut self, now_ns: u64) -> Option<Timer> {
        while let Some(&Reverse((due, timer))) = self.due.peek() {
            if due > now_ns {
                return None;
            }
            self.due.pop();
            match self.live.get(&timer).copied() {
                None => {}
                Some(0) => {
                    self.live.remove(&timer);
                    return Some(timer);
                }
                Some(period) => {
                    let missed = (now_ns - due) / period;
                    let next = due.saturating_add(period.saturating_mul(missed + 1));
                    self.due.push(Reverse((next, timer)));
                    return Some(timer);
                }
            }
        }
        None
    }
}

/// Nanoseconds of a duration, at least 1: a period of 0 would never end.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn once_and_periodic() {
        let mut timers = Timers::default();
        let once = timers.set(10, 0);
        let often = timers.set(20, 20);
        assert_eq!(timers.next_due_ns(), Some(10));
        assert_eq!(timers.expire(9), None);
        assert_eq!(timers.expire(10), Some(once));
        assert_eq!(timers.expire(10), None);
        assert!(!timers.cancel(once));
        assert_eq!(timers.expire(95), Some(often));
        // 40, 60 and 80 were missed.
        assert_eq!(timers.expire(99), None);
        assert_eq!(timers.expire(100), Some(often));
        assert!(timers.cancel(often));
        assert_eq!(timers.expire(1000), None);
        assert!(timers.is_empty());
    }

    #[test]
    fn setting_and_cancelling_does_not_grow() {
        let mut timers = Timers::default();
        for at in 0..10_000 {
            let timer = timers.set(at, 0);
            assert!(timers.cancel(timer));
        }
        assert!(timers.due.len() <= 65 && timers.live.is_empty());
    }

    proptest! {
        /// Against a list that is searched: same timers, in the order of their times.
        #[test]
        fn as_a_searched_list(
            steps in proptest::collection::vec((0..4u8, 0..50u64, 0..20u64), 1..200),
        ) {
            let mut timers = Timers::default();
            let mut list: Vec<(u64, Timer, u64)> = Vec::new();
            let mut now = 0;
            for (step, a, b) in steps {
                match step {
                    0 | 1 => {
                        let period = if step == 0 { 0 } else { b + 1 };
                        list.push((now + a, timers.set(now + a, period), period));
                    }
                    2 => {
                        let timer = Timer(a);
                        let at = list.iter().position(|(_, one, _)| *one == timer);
                        if let Some(at) = at {
                            list.remove(at);
                        }
                        prop_assert_eq!(timers.cancel(timer), at.is_some());
                    }
                    _ => {
                        now += a;
                        loop {
                            let first = list.iter().copied().enumerate().min_by_key(|(_, e)| *e);
                            let first = first.filter(|(_, (due, _, _))| *due <= now);
                            prop_assert_eq!(timers.expire(now), first.map(|(_, e)| e.1));
                            let Some((at, (mut due, _, period))) = first else { break };
                            if period == 0 {
                                list.remove(at);
                            } else {
                                while due <= now {
                                    due += period;
                                }
                                list[at].0 = due;
                            }
                        }
                    }
                }
            }
        }
    }
}
