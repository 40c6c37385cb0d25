//! Batches looked at in groups: what holds for which of their packets.

use thruway_packet::MAX_BATCH;
use thruway_packet::lanes::LANES;

/// Which packets of a batch were marked, a group at a time. Those behind the last whole group, or
/// behind [`MAX_BATCH`], are not.
#[derive(Debug, Default)]
pub struct Marked {
    /// A byte for each group, a bit for each packet.
    groups: [u8; MAX_BATCH / LANES],
    count: usize,
}

impl Marked {
    /// Marks the packets selected by the bits that `bits_of` returns for each whole group of
    /// `items`.
    #[inline]
    pub fn by_groups<T>(items: &mut [T], mut bits_of: impl FnMut(&mut [T; LANES]) -> u8) -> Marked {
        let mut marked = Marked::default();
        let (groups, _) = items.as_chunks_mut::<LANES>();
        for (group, bits) in groups.iter_mut().zip(&mut marked.groups) {
            *bits = bits_of(group);
            marked.count += bits.count_ones() as usize;
        }
        marked
    }

    /// How many are marked.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the packet in this place is.
    #[inline]
    pub fn holds(&self, at: usize) -> bool {
        self.groups.get(at / LANES).is_some_and(|bits| bits >> (at % LANES) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_groups_are_marked() {
        let mut numbers: Vec<usize> = (0..300).collect();
        let is_odd = |number: usize| number % 2 == 1;
        let marked = Marked::by_groups(&mut numbers, |group| {
            group.iter().enumerate().map(|(at, number)| u8::from(is_odd(*number)) << at).sum()
        });
        assert_eq!(marked.count(), MAX_BATCH / 2);
        for at in 0..400 {
            assert_eq!(marked.holds(at), is_odd(at) && at < MAX_BATCH, "{at}");
        }
        assert_eq!(Marked::by_groups(&mut numbers[..7], |_| 0xff).count(), 0, "no whole group");
    }
}
