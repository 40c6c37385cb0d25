//! Counts of connection requests by destination, and the destinations that get too many.

/// Counters of a row: a power of two. A request adds to one of each row.
const CELLS: usize = 4096;
/// Rows: a destination's count is the least of its counters, so two destinations disturb one
/// another only where they share a counter in both.
const ROWS: usize = 2;
/// Odd numbers that spread destinations over a row, one each: the golden ratio and the square root
/// of three, as fractions of 2^64.
const SPREAD: [u64; ROWS] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b];
/// Most destinations that are flooded at once.
pub(super) const FLOODED_MAX: usize = 64;

/// A destination: an IPv6 address, or an IPv4 address mapped to one.
pub(super) type Destination = u128;

/// How much is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Length of a window, nanoseconds.
    pub(super) window: i64,
    /// Requests in a window at which a destination is flooded.
    pub(super) high: u32,
    /// Requests in a window up to which a flooded one is calm.
    pub(super) low: u32,
    /// How long it must have been calm until it is flooded no more, nanoseconds.
    pub(super) calm: i64,
}

/// Requests in a window.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    window: i64,
    count: u32,
}

impl Cell {
    /// Counts a request; how many there are in its window.
    #[inline]
    fn add(&mut self, window: i64) -> u32 {
        if self.window != window {
            *self = Cell { window, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count
    }
}

/// A destination that is flooded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flooded {
    pub(super) to: Destination,
    /// When it began.
    pub(super) since: i64,
    /// Requests since then.
    pub(super) requests: u64,
    /// When it last got more than it may to be calm.
    busy: i64,
    now: Cell,
}

/// Memory that is taken once.
pub(super) struct Watch {
    cells: Vec<Cell>,
    flooded: Vec<Flooded>,
    pub(super) limits: Limits,
    /// When the first window began.
    begin: Option<i64>,
    /// Times that a destination was found flooded.
    pub(super) floods: u64,
}

impl Watch {
    pub(super) fn new(limits: Limits) -> Watch {
        // No window has this number.
        let none = Cell { window: -1, count: 0 };
        let flooded = Vec::with_capacity(FLOODED_MAX);
        Watch { cells: vec![none; ROWS * CELLS], flooded, limits, begin: None, floods: 0 }
    }

    /// Destinations that are flooded, in the order in which they were found.
    pub(super) fn flooded(&self) -> &[Flooded] {
        &self.flooded
    }

    /// The first window begins, where none has.
    pub(super) fn begin(&mut self, now: i64) {
        self.begin.get_or_insert(now);
    }

    /// Takes what an element before found.
    pub(super) fn take_over(&mut self, before: Watch) {
        self.flooded.extend(before.flooded.iter().take(FLOODED_MAX - self.flooded.len()));
        self.floods = before.floods;
        if self.limits.window == before.limits.window {
            (self.begin, self.cells) = (before.begin, before.cells);
        }
    }

    /// Counts a request for a connection.
    #[inline]
    pub(super) fn request(&mut self, now: i64, to: Destination) {
        let Limits { window, high, low, .. } = self.limits;
        let nth = (now - self.begin.unwrap_or(0)) / window;
        let folded = (to as u64) ^ ((to >> 64) as u64).rotate_left(32);
        let mut count = u32::MAX;
        for (row, spread) in SPREAD.iter().enumerate() {
            let at = (folded.wrapping_mul(*spread) >> 40) as usize % CELLS;
            count = count.min(self.cells[row * CELLS + at].add(nth));
        }
        if let Some(one) = self.flooded.iter_mut().find(|one| one.to == to) {
            one.requests += 1;
            if one.now.add(nth) > low {
                one.busy = now;
            }
        } else if count >= high && self.flooded.len() < FLOODED_MAX {
            self.floods += 1;
            let (requests, cell) = (count.into(), Cell { window: nth, count });
            self.flooded.push(Flooded { to, since: now, requests, busy: now, now: cell });
        }
    }

    /// Forgets destinations that have been calm for long enough.
    #[inline]
    pub(super) fn advance(&mut self, now: i64) {
        let calm = self.limits.calm;
        self.flooded.retain(|one| now - one.busy < calm);
    }

    /// Whether any destination is flooded.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.flooded.is_empty()
    }

    /// Whether this one is.
    #[inline]
    pub(super) fn is_flooded(&self, to: Destination) -> bool {
        self.flooded.iter().any(|one| one.to == to)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { window: 10, high: 4, low: 2, calm: 35 };

    /// The same by lists of all that was seen.
    #[derive(Default)]
    struct Plain {
        counts: HashMap<(Destination, i64), u32>,
        /// When each flooded one was last busy.
        busy: HashMap<Destination, i64>,
    }

    impl Plain {
        fn request(&mut self, now: i64, to: Destination) {
            let count = self.counts.entry((to, now / LIMITS.window)).or_default();
            *count += 1;
            let limit = if self.busy.contains_key(&to) { LIMITS.low + 1 } else { LIMITS.high };
            if *count >= limit {
                self.busy.insert(to, now);
            }
        }

        fn advance(&mut self, now: i64) {
            self.busy.retain(|_, busy| now - *busy < LIMITS.calm);
        }
    }

    proptest! {
        #[test]
        fn floods_are_those_of_exact_counts(
            steps in prop::collection::vec((0..6_i64, 0..8_u8), 0..400),
        ) {
            let (mut watch, mut plain, mut now) = (Watch::new(LIMITS), Plain::default(), 0);
            for (passed, number) in steps {
                now += passed;
                let to = Destination::from(number) << 3 | 0xffff_0a00_0000;
                watch.advance(now);
                plain.advance(now);
                watch.request(now, to);
                plain.request(now, to);
                for number in 0..8_u8 {
                    let to = Destination::from(number) << 3 | 0xffff_0a00_0000;
                    prop_assert_eq!(watch.is_flooded(to), plain.busy.contains_key(&to));
                }
                prop_assert_eq!(watch.is_any(), !plain.busy.is_empty());
            }
        }
    }

    #[test]
    fn no_more_are_kept_than_there_is_memory_for() {
        let mut watch = Watch::new(LIMITS);
        for to in 0..200 {
            (0..LIMITS.high).for_each(|_| watch.request(0, to << 20));
        }
        assert_eq!((watch.flooded().len(), watch.flooded.capacity()), (FLOODED_MAX, FLOODED_MAX));
        watch.advance(LIMITS.calm);
        assert!(!watch.is_any());
    }

    #[test]
    fn another_configuration_knows_of_floods_that_go_on() {
        let mut before = Watch::new(LIMITS);
        (0..4).for_each(|_| before.request(5, 7));
        let mut after = Watch::new(Limits { window: 20, ..LIMITS });
        after.take_over(before);
        assert!(after.is_flooded(7) && after.floods == 1);
        after.advance(40);
        assert!(!after.is_any());
    }
}
