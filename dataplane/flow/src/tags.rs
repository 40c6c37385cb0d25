//! Tags by which a switch or host in front marks the class of a packet.
//!
//! A switch that has the rules of a [`Plan`] gives each packet a number. A classifier that trusts
//! the number takes the class from it, and does not look for it. What carries the number is a
//! [`TagKind`]; all else is the same for each kind:
//!
//! ```text
//! number = 2 + generation * classes of the kind + class        0, 1: no class
//! ```
//!
//! Rules change while packets are in flight. So there are several generations of numbers: the rules
//! of a new configuration use the next one, and a packet with a tag of a former one is classified
//! anew.

use std::fmt::{self, Write};

use thruway_packet::{Anno, Packet};
use thruway_wire::ethernet::ethertype;

use crate::decision::LeafId;
use crate::hash::Hasher;
use crate::plan::{LEAVES_MAX, Plan};

/// EtherType of VLAN tags (IEEE 802.1Q, section 9.5).
pub const VLAN: u16 = ethertype::QINQ;
/// EtherType of labels (RFC 3032, section 5).
pub const MPLS: u16 = ethertype::MPLS;
/// Class of the option of Geneve with a number in its first two bytes: the first one for
/// experiments (RFC 8926, section 7).
pub const OPTION_CLASS: u16 = 0xff00;
/// Its type, the only one of that class. Receivers that do not know it may skip it.
pub const OPTION_KIND: u8 = 1;
/// Bytes of its value.
pub const OPTION_LEN: usize = 4;
/// The VLAN number, of any kind, that denotes no class: a switch puts it in front of frames that
/// bring what could be taken for a tag.
pub const UNCLASSIFIED: u16 = 1;
/// The first number of a class.
const FIRST: u32 = 2;
/// In place of a number that cannot be of the kind that is expected.
const FOREIGN: u32 = u32::MAX;
const VLAN_MASK: u16 = 0x0fff;
/// The bits that all labels of classes have. They are neither those of reserved labels (RFC 3032,
/// section 2.1) nor the beginning of IEEE 802.2 with SNAP (0xaaaa03), in front of which a switch
/// puts a label as if it were an Ethernet header.
const LABEL_MARK: u32 = 0xc_0000;
/// Of a label's lowest bit: the packet behind is IPv6.
const LABEL_IPV6: u32 = 1;
/// Bit of a label stack entry: it is the last one (RFC 3032, section 2.1).
const BOTTOM: u32 = 0x100;
const LABEL_SHIFT: u32 = 12;
/// Bytes of a tag in a frame, of either kind.
const TAG_LEN: usize = 4;
const TYPE_AT: usize = 12;

/// What carries the number of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagKind {
    /// An 802.1ad tag in front of the frame's own type: the number is that of the VLAN.
    Vlan,
    /// A label between the Ethernet header and an IP packet. It stands in place of the EtherType,
    /// so its lowest bit is the version of IP ([`label`]).
    Mpls,
    /// Metadata in a header between hosts: an option of Geneve, or of a network service header. An
    /// element in front of the classifier leaves the number in an annotation.
    Metadata,
}

impl TagKind {
    /// All of them.
    pub const ALL: [TagKind; 3] = [TagKind::Vlan, TagKind::Mpls, TagKind::Metadata];

    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            TagKind::Vlan => "vlan",
            TagKind::Mpls => "mpls",
            TagKind::Metadata => "metadata",
        }
    }

    /// How many classes have a tag: those with lower numbers. Of a VLAN, 12 bits are for class and
    /// generation, of a label 17, of metadata 16.
    #[inline]
    pub const fn classes(self) -> u16 {
        match self {
            TagKind::Vlan => 2046,
            TagKind::Mpls => LEAVES_MAX as u16,
            TagKind::Metadata => 16_383,
        }
    }

    /// How many generations of tags there are.
    #[inline]
    pub const fn generations(self) -> u8 {
        match self {
            TagKind::Vlan => 2,
            TagKind::Mpls => 7,
            TagKind::Metadata => 4,
        }
    }

    #[inline]
    fn first(self, generation: Generation) -> u32 {
        FIRST + u32::from(generation.0) * u32::from(self.classes())
    }

    /// The number of a class; `None` if it has none, or there is no such generation.
    pub fn number(self, generation: Generation, class: LeafId) -> Option<u32> {
        let is_right = class < self.classes() && generation.0 < self.generations();
        is_right.then(|| self.first(generation) + u32::from(class))
    }

    /// The class that a number denotes; `None` if it is none of this generation.
    #[inline]
    pub fn class(self, generation: Generation, number: u32) -> Option<LeafId> {
        let class = number.checked_sub(self.first(generation))?;
        (class < u32::from(self.classes())).then_some(class as LeafId)
    }

    /// The generation of a number; `None` if it denotes no class.
    pub fn generation(self, number: u32) -> Option<Generation> {
        let mut all = (0..self.generations()).map(Generation);
        all.find(|generation| self.class(*generation, number).is_some())
    }
}

/// Which part of the numbers is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Generation(u8);

impl Generation {
    /// The one to use after this one: the former one that was used longest ago.
    #[must_use]
    pub fn next(self, kind: TagKind) -> Generation {
        Generation((self.0 + 1) % kind.generations())
    }

    /// Reads its number; `None` if it is none, or there are fewer of this kind.
    pub fn parse(text: &str, kind: TagKind) -> Option<Generation> {
        let number = text.parse().ok()?;
        (number < kind.generations()).then_some(Generation(number))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The label of a number of [`TagKind::Mpls`] in front of a packet of IPv4, or of IPv6.
pub fn label(number: u32, is_ipv6: bool) -> u32 {
    LABEL_MARK | number << 1 | if is_ipv6 { LABEL_IPV6 } else { 0 }
}

/// The number of a label; `None` if it is no label of a class.
#[inline]
pub fn number_of_label(label: u32) -> Option<u32> {
    (label & LABEL_MARK == LABEL_MARK).then_some((label & !LABEL_MARK) >> 1)
}

/// Where the packets of a classifier have their tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagSource {
    /// In the frame, as a VLAN tag.
    Vlan,
    /// In the frame, as a label.
    Mpls,
    /// In an annotation.
    Anno(Anno),
}

impl TagSource {
    /// Their kind.
    #[inline]
    pub fn kind(self) -> TagKind {
        match self {
            TagSource::Vlan => TagKind::Vlan,
            TagSource::Mpls => TagKind::Mpls,
            TagSource::Anno(_) => TagKind::Metadata,
        }
    }

    /// Removes the tag of a packet: returns its number, which may be of no class; `None` if there
    /// is no tag, or it says that the packet has no class.
    #[inline]
    pub fn take(self, packet: &mut Packet) -> Option<u32> {
        let number = match self {
            TagSource::Vlan => take_vlan(packet)?.into(),
            TagSource::Mpls => take_label(packet)?,
            TagSource::Anno(anno) => packet.anno_number(anno) & 0xffff,
        };
        (number >= FIRST).then_some(number)
    }
}

/// The tags of the packets that come to a classifier.
#[derive(Clone, Copy, Debug)]
pub struct Tags {
    /// Where they are.
    pub source: TagSource,
    /// Whether a packet with a tag that is not trusted is refused while others are trusted.
    pub refuse_unknown: bool,
}

/// Removes a VLAN tag from a packet that begins with an Ethernet header: returns its number.
#[inline]
fn take_vlan(packet: &mut Packet) -> Option<u16> {
    // With the type behind it: to a switch, a shorter frame has no tag, and it adds none.
    let head = packet.data_mut().first_chunk_mut::<{ TYPE_AT + TAG_LEN + 2 }>()?;
    let addresses: [u8; TYPE_AT] = *head.first_chunk()?;
    if u16::from_be_bytes([head[12], head[13]]) != VLAN {
        return None;
    }
    let tag = u16::from_be_bytes([head[14], head[15]]) & VLAN_MASK;
    head[TAG_LEN..TAG_LEN + TYPE_AT].copy_from_slice(&addresses);
    packet.pull(TAG_LEN).then_some(tag)
}

/// Removes the label of a class, or the VLAN tag in front of a frame without one, from a packet
/// that begins with an Ethernet header: returns its number. Leaves other labels alone: the rules of
/// a switch put a VLAN tag in front of those, so they come from elsewhere and denote nothing here.
#[inline]
fn take_label(packet: &mut Packet) -> Option<u32> {
    let head = packet.data_mut().first_chunk_mut::<{ TYPE_AT + 2 + TAG_LEN }>()?;
    let ethertype = u16::from_be_bytes([head[12], head[13]]);
    if ethertype == VLAN {
        let tag = take_vlan(packet)?;
        return Some(if tag == UNCLASSIFIED { tag.into() } else { FOREIGN });
    }
    let entry = u32::from_be_bytes([head[14], head[15], head[16], head[17]]);
    if ethertype != MPLS || entry & BOTTOM == 0 {
        return None;
    }
    let label = entry >> LABEL_SHIFT;
    let number = number_of_label(label)?;
    let addresses: [u8; TYPE_AT] = *head.first_chunk()?;
    let of_packet = if label & LABEL_IPV6 == 0 { ethertype::IPV4 } else { ethertype::IPV6 };
    head[TAG_LEN..TAG_LEN + TYPE_AT].copy_from_slice(&addresses);
    head[TAG_LEN + TYPE_AT..].copy_from_slice(&of_packet.to_be_bytes());
    packet.pull(TAG_LEN).then_some(number)
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

    /// How many bits a kind has for its numbers.
    fn bits(kind: TagKind) -> u32 {
        match kind {
            TagKind::Vlan => 12,
            TagKind::Mpls => 17,
            TagKind::Metadata => 16,
        }
    }

    #[test]
    fn a_number_stands_for_one_class_of_one_generation() {
        for kind in TagKind::ALL {
            let all: Vec<Generation> = (0..kind.generations()).map(Generation).collect();
            let mut expected = FIRST;
            for generation in &all {
                for class in 0..kind.classes() {
                    let number = kind.number(*generation, class).unwrap();
                    assert_eq!(number, expected, "{kind:?} {generation} {class}");
                    expected += 1;
                    let of = |one: &Generation| kind.class(*one, number);
                    let found: Vec<_> = all.iter().filter_map(of).collect();
                    assert_eq!(found, [class]);
                    assert_eq!(kind.generation(number), Some(*generation));
                }
                assert_eq!(kind.number(*generation, kind.classes()), None);
                assert_eq!(Generation::parse(&generation.to_string(), kind), Some(*generation));
            }
            // Neither 0xfff, which is no VLAN, nor a number that does not fit.
            assert!(expected < (1 << bits(kind)), "{kind:?}: {expected}");
            for number in [0, UNCLASSIFIED.into(), expected, FOREIGN] {
                assert_eq!(kind.generation(number), None, "{kind:?} {number}");
            }
            assert_eq!(kind.number(Generation(kind.generations()), 0), None);
            assert_eq!(Generation::parse(&kind.generations().to_string(), kind), None);
            let round = all.iter().fold(Generation(0), |one, _| one.next(kind));
            assert_eq!(round, Generation(0));
        }
    }

    #[test]
    fn a_label_is_no_reserved_one_and_no_beginning_of_snap() {
        let last = TagKind::Mpls.number(Generation(6), TagKind::Mpls.classes() - 1).unwrap();
        for number in [FIRST, 12_345, last] {
            for is_ipv6 in [false, true] {
                let label = label(number, is_ipv6);
                assert!(label < 1 << 20 && number_of_label(label) == Some(number));
            }
        }
        for foreign in [0, 3, 15, 16, 0xa_aaa0, 0x8_0000, 0x7_ffff] {
            assert_eq!(number_of_label(foreign), None, "{foreign:#x}");
        }
    }

    fn frame(words: &[u8], payload: &[u8]) -> Packet {
        Packet::new(&[[2; 12].as_slice(), words, payload].concat()).unwrap()
    }

    #[test]
    fn a_vlan_tag_is_taken_off() {
        let bytes = [[2; 12].as_slice(), &[0x88, 0xa8, 0xe0, 7, 8, 0, 1, 2]].concat();
        let mut packet = Packet::new(&bytes).unwrap();
        assert_eq!(TagSource::Vlan.take(&mut packet), Some(7));
        assert_eq!(packet.data(), [[2; 12].as_slice(), &[8, 0, 1, 2]].concat());
        assert_eq!(TagSource::Vlan.take(&mut packet), None);
        for len in 0..18 {
            assert_eq!(TagSource::Vlan.take(&mut Packet::new(&bytes[..len]).unwrap()), None);
        }
        let mut unclassified = frame(&[0x88, 0xa8, 0, 1, 0x88, 0xa8, 0, 7], &[8, 0]);
        assert_eq!(TagSource::Vlan.take(&mut unclassified), None);
        assert_eq!(unclassified.data().len(), 18, "the other tag is the frame's own");
    }

    #[test]
    fn a_label_is_taken_off_and_the_type_is_that_of_the_packet_again() {
        let entry = |number: u32, is_ipv6: bool, bottom: u32| {
            (label(number, is_ipv6) << LABEL_SHIFT | bottom | 64).to_be_bytes()
        };
        let labelled = |entry: [u8; 4]| frame(&[&[0x88, 0x47], &entry[..]].concat(), &[1, 2]);
        for (is_ipv6, ethertype) in [(false, [8, 0]), (true, [0x86, 0xdd])] {
            let mut packet = labelled(entry(77, is_ipv6, BOTTOM));
            assert_eq!(TagSource::Mpls.take(&mut packet), Some(77));
            assert_eq!(packet.data(), [[2; 12].as_slice(), &ethertype, &[1, 2]].concat());
            assert_eq!(TagSource::Mpls.take(&mut packet), None);
        }
        // Labels of others: above another label, without the mark, of multicast, cut off.
        let foreign = [entry(77, false, 0), (16u32 << LABEL_SHIFT | BOTTOM).to_be_bytes()];
        let foreign = foreign.map(labelled).into_iter().chain([
            frame(&[0x88, 0x48], &entry(77, false, BOTTOM)),
            frame(&[0x88, 0x47], &entry(77, false, BOTTOM)[..3]),
            frame(&[0x88, 0x47, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &entry(77, false, BOTTOM)),
        ]);
        for mut packet in foreign {
            let before = packet.data().to_vec();
            assert_eq!(TagSource::Mpls.take(&mut packet), None);
            assert_eq!(packet.data(), before);
        }
        // In front of what comes with a label or a VLAN tag, a VLAN tag without a class.
        let own = [&[0x88, 0x47], &entry(77, false, BOTTOM)[..]].concat();
        for (tag, number) in [(1, None), (7, Some(FOREIGN))] {
            let mut covered = frame(&[0x88, 0xa8, 0, tag], &own);
            assert_eq!(TagSource::Mpls.take(&mut covered), number);
            assert_eq!(covered.data(), [[2; 12].as_slice(), &own].concat());
        }
    }

    #[test]
    fn an_annotation_stays() {
        let mut packet = frame(&[8, 0], &[]);
        let source = TagSource::Anno(Anno::VLAN_TCI);
        for (value, number) in [(0, None), (1, None), (2, Some(2)), (0xffff, Some(0xffff))] {
            packet.set_anno_number(Anno::VLAN_TCI, value);
            assert_eq!(source.take(&mut packet), number);
        }
    }
}
