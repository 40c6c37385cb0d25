//! Tags by which a switch in front marks the class of a packet.
//!
//! A switch that has the rules of a [`Plan`] puts an 802.1ad tag before the frame's own type (IEEE
//! 802.1Q, section 9.5): its VLAN number denotes the class. A classifier that trusts tags removes
//! it.
//!
//! Rules change while packets are in flight. So there are two generations of numbers: the rules of
//! a new configuration use the other one, and a packet with a tag of the former is classified anew.

use std::fmt::{self, Write};

use thruway_packet::Packet;

use crate::decision::LeafId;
use crate::hash::Hasher;
use crate::plan::Plan;

/// EtherType of the tags.
pub const ETHERTYPE: u16 = 0x88a8;
/// The number that denotes no class: a switch puts it before frames that have tags of their own,
/// lest those are taken for a class.
pub const UNCLASSIFIED: u16 = 1;
/// How many classes have a tag.
pub const CLASSES: u16 = 2046;
const VLAN_MASK: u16 = 0x0fff;
/// Bytes of a tag.
const TAG_LEN: usize = 4;
const TYPE_AT: usize = 12;

/// Which half of the numbers is used. VLAN numbers are 1 to 4094.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// 2 to 2047.
    Even,
    /// 2048 to 4093.
    Odd,
}

impl Generation {
    /// The other one.
    pub fn other(self) -> Generation {
        match self {
            Generation::Even => Generation::Odd,
            Generation::Odd => Generation::Even,
        }
    }

    fn first(self) -> u16 {
        match self {
            Generation::Even => 2,
            Generation::Odd => 2 + CLASSES,
        }
    }

    /// The number of a class; `None` if it has none.
    pub fn tag(self, class: LeafId) -> Option<u16> {
        (class < CLASSES).then(|| self.first() + class)
    }

    /// The class that a number denotes; `None` if it is none of this generation.
    #[inline]
    pub fn class(self, tag: u16) -> Option<LeafId> {
        tag.checked_sub(self.first()).filter(|class| *class < CLASSES)
    }

    /// Reads its name.
    pub fn parse(text: &str) -> Option<Generation> {
        [Generation::Even, Generation::Odd].into_iter().find(|one| one.name() == text)
    }

    /// `even` or `odd`.
    pub fn name(self) -> &'static str {
        match self {
            Generation::Even => "even",
            Generation::Odd => "odd",
        }
    }
}

/// Removes a switch's tag from a packet that begins with an Ethernet header: returns its number;
/// `None` if there is none.
#[inline]
pub(crate) fn take(packet: &mut Packet) -> Option<u16> {
    // With the type behind it: to a switch, a shorter frame has no tag, and it adds none.
    let head = packet.data_mut().first_chunk_mut::<{ TYPE_AT + TAG_LEN + 2 }>()?;
    let addresses: [u8; TYPE_AT] = *head.first_chunk()?;
    if u16::from_be_bytes([head[12], head[13]]) != ETHERTYPE {
        return None;
    }
    let tag = u16::from_be_bytes([head[14], head[15]]) & VLAN_MASK;
    head[TAG_LEN..TAG_LEN + TYPE_AT].copy_from_slice(&addresses);
    packet.pull(TAG_LEN).then_some(tag)
}

impl Plan {
    /// A number that is unique to a plan: two plans with the same number have the same classes. It
    /// identifies the rules in a switch.
    pub fn fingerprint(&self) -> u64 {
        let mut written = Hashed { hasher: Hasher::new([0; 2]), hash: 0, text: String::new() };
        // Writing to a hash cannot fail.
        let _ = write!(written, "{:?} {:?}", self.decision, self.leaves);
        written.flush();
        written.hash
    }
}

/// Text that is hashed by the piece.
struct Hashed {
    hasher: Hasher,
    hash: u64,
    text: String,
}

/// Bytes of a piece.
const PIECE: usize = 1 << 16;

impl Hashed {
    fn flush(&mut self) {
        let words = self.text.as_bytes().chunks(4).map(|bytes| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            u32::from_le_bytes(word)
        });
        let before = [self.hash as u32, (self.hash >> 32) as u32, self.text.len() as u32];
        let words: Vec<u32> = before.into_iter().chain(words).collect();
        self.hash = self.hasher.hash(&words);
        self.text.clear();
    }
}

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        if self.text.len() >= PIECE {
            self.flush();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_one_class_of_one_generation() {
        let all = [Generation::Even, Generation::Odd];
        for class in 0..CLASSES {
            for generation in all {
                let tag = generation.tag(class).unwrap();
                assert!((2..=4094).contains(&tag));
                assert_eq!(generation.class(tag), Some(class));
                assert_eq!(generation.other().class(tag), None);
            }
        }
        for generation in all {
            assert_eq!(generation.tag(CLASSES), None);
            assert_eq!([0, UNCLASSIFIED, 4094, 4095].map(|tag| generation.class(tag)), [None; 4]);
            assert_eq!(Generation::parse(generation.name()), Some(generation));
        }
    }

    #[test]
    fn a_tag_is_taken_off() {
        let frame = [[2; 12].as_slice(), &[0x88, 0xa8, 0xe0, 7, 8, 0, 1, 2]].concat();
        let mut packet = Packet::new(&frame).unwrap();
        assert_eq!(take(&mut packet), Some(7));
        assert_eq!(packet.data(), [[2; 12].as_slice(), &[8, 0, 1, 2]].concat());
        assert_eq!(take(&mut packet), None);
        for len in 0..18 {
            assert_eq!(take(&mut Packet::new(&frame[..len]).unwrap()), None, "{len}");
        }
    }
}
