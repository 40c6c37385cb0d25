//! Sets of numbers as a few intervals.

/// Most intervals; a set that needs more is widened, which loses precision and nothing else.
const INTERVALS_MAX: usize = 8;

/// A set of numbers: sorted intervals with gaps between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set(Vec<(u32, u32)>);

impl Set {
    /// Numbers up to this one.
    pub(super) fn up_to(largest: u32) -> Set {
        Set(vec![(0, largest)])
    }

    pub(super) fn none() -> Set {
        Set(Vec::new())
    }

    pub(super) fn one(value: u32) -> Set {
        Set(vec![(value, value)])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The only number in it.
    pub(super) fn single(&self) -> Option<u32> {
        match self.0[..] {
            [(lo, hi)] if lo == hi => Some(lo),
            _ => None,
        }
    }

    /// Its intervals, in order.
    pub(super) fn intervals(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub(super) fn contains(&self, value: u32) -> bool {
        self.0.iter().any(|(lo, hi)| (*lo..=*hi).contains(&value))
    }

    pub(super) fn meets(&self, other: &Set) -> bool {
        self.0.iter().any(|(lo, hi)| other.0.iter().any(|(l, h)| lo <= h && l <= hi))
    }

    pub(super) fn is_within(&self, other: &Set) -> bool {
        self.0.iter().all(|(lo, hi)| other.0.iter().any(|(l, h)| l <= lo && hi <= h))
    }

    pub(super) fn intersection(&self, (lo, hi): (u32, u32)) -> Set {
        let parts = self.0.iter().map(|(l, h)| (lo.max(*l), hi.min(*h)));
        Set(parts.filter(|(l, h)| l <= h).collect())
    }

    pub(super) fn without(&self, (lo, hi): (u32, u32)) -> Set {
        let mut parts = Vec::with_capacity(self.0.len() + 1);
        for (l, h) in &self.0 {
            if lo > *l && lo > 0 {
                parts.push((*l, (lo - 1).min(*h)));
            }
            if hi < *h {
                parts.push(((*l).max(hi + 1), *h));
            }
        }
        parts.retain(|(l, h)| l <= h);
        Set(parts).bounded()
    }

    pub(super) fn union(&self, other: &Set) -> Set {
        let mut parts = self.0.clone();
        parts.extend(&other.0);
        parts.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(parts.len());
        for (lo, hi) in parts {
            match joined.last_mut() {
                Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
                _ => joined.push((lo, hi)),
            }
        }
        Set(joined).bounded()
    }

    /// Closes the smallest gaps while there are too many intervals.
    fn bounded(mut self) -> Set {
        while self.0.len() > INTERVALS_MAX {
            let gaps = self.0.windows(2).map(|pair| pair[1].0 - pair[0].1).enumerate();
            let Some((at, _)) = gaps.min_by_key(|(_, gap)| *gap) else { break };
            self.0[at].1 = self.0[at + 1].1;
            self.0.remove(at + 1);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_is_a_set(
            cuts in proptest::collection::vec((0..40_u32, 0..8_u32, 0..3_u8), 0..12),
        ) {
            let mut set = Set::up_to(40);
            let mut plain: Vec<u32> = (0..=40).collect();
            for (lo, len, how) in cuts {
                let part = (lo, lo + len);
                let inside = |value: &u32| (part.0..=part.1).contains(value);
                match how {
                    0 => {
                        set = set.union(&Set(vec![part]));
                        plain.extend(part.0..=part.1);
                    }
                    1 => {
                        set = set.without(part);
                        plain.retain(|value| !inside(value));
                    }
                    _ => {
                        prop_assert_eq!(
                            plain.iter().any(inside), !set.intersection(part).is_empty());
                        prop_assert_eq!(plain.iter().any(inside), set.meets(&Set(vec![part])));
                    }
                }
                plain.sort_unstable();
                plain.dedup();
                for value in 0..60 {
                    prop_assert_eq!(set.contains(value), plain.contains(&value));
                }
            }
        }
    }
}
