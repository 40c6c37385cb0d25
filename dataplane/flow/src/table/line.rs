//! One line of the index: eight slots in 64 bytes.

use thruway_packet::prefetch_bytes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Slots of a line.
pub const SLOTS: usize = 8;

/// Bits of a hash that the number of any bucket implies, and that slots need not hold.
pub const IMPLIED_BITS: u32 = 8;

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = ONES << 7;

/// The part of a hash in a slot: all bits but the lowest [`IMPLIED_BITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u32);

impl Tag {
    #[inline]
    pub fn of(hash: u32) -> Tag {
        Tag(hash >> IMPLIED_BITS)
    }

    /// Whether this bit of the hash is set, which must not be an implied one.
    #[inline]
    pub fn has(self, bit: u32) -> bool {
        self.0 << IMPLIED_BITS & bit != 0
    }
}

/// A bucket, or more room for one. Slots are used from the first on without gaps.
///
/// 24 bits of a hash are kept in three planes of eight bytes each, a byte per slot, so that eight
/// tags are compared in a dozen instructions on plain 64-bit registers.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Line {
    planes: [u64; 3],
    entries: [u32; SLOTS],
    /// The line that this one continues in, plus 1; 0: none.
    link: u32,
    len: u32,
}

impl Line {
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub fn link(&self) -> Option<u32> {
        self.link.checked_sub(1)
    }

    pub fn set_link(&mut self, next: Option<u32>) {
        self.link = next.map_or(0, |next| next + 1);
    }

    #[inline]
    pub fn entry(&self, slot: usize) -> u32 {
        self.entries[slot % SLOTS]
    }

    /// The slots that hold this tag.
    #[inline]
    pub fn matches(&self, tag: Tag) -> Matches {
        let [a, b, c, _] = tag.0.to_le_bytes().map(|byte| u64::from(byte) * ONES);
        let differs = (self.planes[0] ^ a) | (self.planes[1] ^ b) | (self.planes[2] ^ c);
        // The top bit of each byte that is zero; no carry leaves a byte.
        let zero = !(((differs & !TOPS) + !TOPS) | differs) & TOPS;
        // Bytes below `len`.
        let used = u64::MAX.checked_shr(64 - 8 * self.len).unwrap_or(0);
        Matches(zero & used)
    }

    #[inline]
    pub fn set(&mut self, slot: usize, tag: Tag, entry: u32) {
        let slot = slot % SLOTS;
        let shift = 8 * slot;
        for (plane, byte) in self.planes.iter_mut().zip(tag.0.to_le_bytes()) {
            *plane = *plane & !(0xff << shift) | u64::from(byte) << shift;
        }
        self.entries[slot] = entry;
    }

    /// Takes one more entry. The line must not be full.
    #[inline]
    pub fn push(&mut self, tag: Tag, entry: u32) {
        debug_assert!(self.len() < SLOTS);
        self.set(self.len(), tag, entry);
        self.len += 1;
    }

    /// Gives back the last entry.
    pub fn pop(&mut self) -> Option<(Tag, u32)> {
        self.len = self.len.checked_sub(1)?;
        Some((tag_of(&self.planes, self.len()), self.entry(self.len())))
    }

    /// Gives back all entries.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = (Tag, u32)> + use<> {
        let (planes, entries) = (self.planes, self.entries);
        let len = std::mem::take(&mut self.len) as usize;
        (0..len.min(SLOTS)).map(move |slot| (tag_of(&planes, slot), entries[slot]))
    }

    #[inline]
    pub fn prefetch(&self) {
        prefetch_bytes(self.as_bytes());
    }
}

/// The tag of a slot.
#[inline]
fn tag_of(planes: &[u64; 3], slot: usize) -> Tag {
    let byte = |plane: u64| (plane >> (8 * (slot % SLOTS))) as u8;
    let [a, b, c] = planes.map(byte);
    Tag(u32::from_le_bytes([a, b, c, 0]))
}

/// Slots of a line, lowest first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Matches(u64);

impl Iterator for Matches {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let slot = self.0.trailing_zeros() / 8;
        self.0 &= self.0.wrapping_sub(1);
        (slot < SLOTS as u32).then_some(slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_are_those_of_a_scan(
            hashes in proptest::collection::vec(prop_oneof![0..4u32, any::<u32>()], 0..=SLOTS),
            wanted in prop_oneof![0..4u32, any::<u32>()],
            planted in 0..SLOTS,
        ) {
            let mut hashes: Vec<u32> = hashes.iter().map(|hash| hash << IMPLIED_BITS).collect();
            let wanted = wanted << IMPLIED_BITS;
            if let Some(hash) = hashes.get_mut(planted) {
                *hash = wanted;
            }
            let mut line = Line::read_from_bytes(&[0; 64]).unwrap();
            for (n, hash) in hashes.iter().enumerate() {
                line.push(Tag::of(*hash), n as u32);
            }
            let found: Vec<usize> = line.matches(Tag::of(wanted)).collect();
            let scan: Vec<usize> = (0..hashes.len()).filter(|n| hashes[*n] == wanted).collect();
            prop_assert_eq!(found, scan);
            for (n, hash) in hashes.iter().enumerate().rev() {
                prop_assert_eq!(line.pop(), Some((Tag::of(*hash), n as u32)));
            }
            prop_assert_eq!(line.pop(), None);
        }
    }
}
