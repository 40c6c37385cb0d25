//! The facts about a packet before a test.

use crate::ast::{Base, Word};

use super::table::{IPV4, IPV6, Start};

/// A masked word with a value between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    base: Base,
    at: u16,
    mask: u32,
    lo: u32,
    hi: u32,
}

/// The facts about a packet.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    start: Start,
    known: Vec<Known>,
}

impl Facts {
    /// Of all packets that begin there.
    pub(super) fn of(start: Start) -> Facts {
        let mut facts = Facts { start, known: Vec::new() };
        let (ethertype, version) = match start {
            Start::V4 => (IPV4, 4),
            Start::V6 => (IPV6, 6),
            Start::Other => return facts,
        };
        let ethertype = u32::from(ethertype) << 16;
        facts.learn(&Word::equal(Base::Frame, 12, 0xffff_0000, ethertype));
        facts.learn(&Word::equal(Base::Network, 0, 0xf000_0000, version << 28));
        if start == Start::V4 {
            // No fragment: no more of them, no offset.
            facts.learn(&Word::equal(Base::Network, 4, 0x3fff, 0));
        }
        facts
    }

    /// Where they begin.
    pub(super) fn start(&self) -> Start {
        self.start
    }

    /// From now on only packets that pass this test.
    pub(super) fn learn(&mut self, word: &Word) {
        let Word { base, at, mask, lo, hi } = *word;
        let same = |known: &&mut Known| (known.base, known.at, known.mask) == (base, at, mask);
        match self.known.iter_mut().find(same) {
            Some(known) => (known.lo, known.hi) = (known.lo.max(lo), known.hi.min(hi)),
            None => self.known.push(Known { base, at, mask, lo, hi }),
        }
    }

    /// Whether no packet has the bytes of a word.
    pub(super) fn is_missing(&self, word: &Word) -> bool {
        self.start == Start::Other && word.base != Base::Frame
    }

    /// Whether all packets pass a test, or none does; `None`: it depends.
    pub(super) fn decides(&self, word: &Word) -> Option<bool> {
        if word.mask == 0 {
            // It needs no bytes.
            return Some(word.holds(0));
        }
        if self.is_missing(word) {
            return Some(false);
        }
        self.known.iter().find_map(|known| known.decides(word))
    }
}

impl Known {
    fn decides(&self, word: &Word) -> Option<bool> {
        if (self.base, self.at) != (word.base, word.at) || word.mask & !self.mask != 0 {
            return None;
        }
        // Bits below the highest ones make no difference in order, so that bounds stay bounds where
        // only these are left out.
        let left_out = self.mask & !word.mask;
        let are_lowest =
            left_out == 0 || word.mask.trailing_zeros() > 31 - left_out.leading_zeros();
        if self.lo != self.hi && !are_lowest {
            return None;
        }
        let (lo, hi) = (self.lo & word.mask, self.hi & word.mask);
        if word.lo <= lo && hi <= word.hi {
            return Some(true);
        }
        (hi < word.lo || word.hi < lo).then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_a_word_are_bounds_of_its_highest_bits() {
        let mut facts = Facts::of(Start::V4);
        facts.learn(&Word {
            base: Base::Network,
            at: 12,
            mask: !0,
            lo: 0x0a01_0000,
            hi: 0x0a01_00ff,
        });
        let net = |mask, value| facts.decides(&Word::equal(Base::Network, 12, mask, value));
        assert_eq!(net(0xff00_0000, 0x0a00_0000), Some(true));
        assert_eq!(net(0xffff_ff00, 0x0a01_0000), Some(true));
        assert_eq!(net(0xffff_0000, 0x0a02_0000), Some(false));
        assert_eq!(net(0xffff_fff0, 0x0a01_0010), None);
        assert_eq!(net(0x0000_00ff, 1), None, "these bits have no bounds of their own");
        let bits = |mask, value| facts.decides(&Word::equal(Base::Network, 4, mask, value));
        assert_eq!(bits(0x1fff, 0), Some(true));
        assert_eq!(bits(0x2000, 0x2000), Some(false));
        assert_eq!(bits(0x4000, 0x4000), None, "whether it may be fragmented is not known");
    }

    #[test]
    fn a_frame_without_an_ip_packet_passes_no_test_of_one() {
        let facts = Facts::of(Start::Other);
        assert_eq!(facts.decides(&Word::equal(Base::Network, 0, 1, 0)), Some(false));
        assert_eq!(
            facts.decides(&Word::equal(Base::Network, 0, 0, 0)),
            Some(true),
            "no bytes needed"
        );
        assert_eq!(facts.decides(&Word::equal(Base::Frame, 12, 0xffff_0000, 0x0806_0000)), None);
    }
}
