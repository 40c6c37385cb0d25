//! Timers of one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One timer: its time, its element and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    /// Nanoseconds since the epoch.
    pub at: i64,
    /// Equal times go off in the order in which they were set.
    order: u64,
    pub node: u32,
    pub token: u32,
}

/// A heap of timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    order: u64,
}

impl Timers {
    pub fn set(&mut self, node: u32, token: u32, at: i64) {
        self.order += 1;
        self.heap.push(Reverse(Timer { at, order: self.order, node, token }));
    }

    pub fn clear(&mut self, node: u32, token: u32) {
        self.heap.retain(|Reverse(timer)| timer.node != node || timer.token != token);
    }

    /// Time of the next one.
    pub fn next(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse(timer)| timer.at)
    }

    /// Takes the next one that is due.
    pub fn pop_due(&mut self, now: i64) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_go_off_in_order_of_time_then_of_setting() {
        let mut timers = Timers::default();
        for (node, at) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            timers.set(node, 0, at);
        }
        timers.clear(3, 0);
        let mut went = Vec::new();
        while let Some(timer) = timers.pop_due(25) {
            went.push(timer.node);
        }
        assert_eq!((went, timers.next()), (vec![2, 4], Some(30)));
    }
}
