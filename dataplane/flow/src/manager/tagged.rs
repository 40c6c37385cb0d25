//! Packets with a class that a switch, a program in front, or another host has found.

use thruway_packet::Packet;

use crate::fcb::Fcb;
use crate::key::PacketView;
use crate::manager::flow_manager::{EntryInput, Manager};
use crate::manager::headers::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Kind, ParsedHeaders};
use crate::plan::{Family, LeafId};
use crate::tags::{Generation, Tags};

/// Bytes of an IPv6 header (RFC 8200, section 3).
const IPV6_HEADER_LEN: usize = 40;
/// Below, the field is a length (IEEE 802.3, section 3.2.6).
const ETHERTYPE_MIN: u16 = 0x600;

/// A tag that denotes no trusted class, of a packet that is to be refused.
pub(super) struct UnknownTag;

impl Manager {
    /// Trusts the tags of a generation, or none, at the classifier `node`, if its packets have tags
    /// ([`Manager::note_tags`]). A new manager trusts none.
    pub fn trust(&mut self, node: u32, generation: Option<Generation>) {
        if let Some(input) = self.input_of(node) {
            input.trusted = generation;
        }
    }

    /// The tags that are trusted at the classifier `node`.
    pub fn trusted(&self, node: u32) -> Option<Generation> {
        self.entry_of(node).and_then(|at| self.inputs.get(at)?.trusted)
    }

    /// Records that packets which come to the classifier `node` have tags.
    pub fn note_tags(&mut self, node: u32, tags: Tags) {
        if let Some(input) = self.input_of(node) {
            input.tags = Some(tags);
        }
    }

    /// Notes that packets which come to the classifier `node` are read as frames of Ethernet.
    pub fn note_frames(&mut self, node: u32) {
        if let Some(input) = self.input_of(node) {
            input.has_frames = true;
        }
    }

    /// Trusts the notes ([`Fcb::of_note`]) of packets that come to the classifier `node`, or none:
    /// a program in front has the table of this plan, which goes by this number. A new manager
    /// trusts none.
    pub fn trust_notes(&mut self, node: u32, note: Option<u64>) {
        if let Some(input) = self.input_of(node) {
            input.note = note;
        }
    }

    /// Where frames that come to the classifier `node` enter the decision: the index among the
    /// plan's entries. `None`: it is no classifier, or reads no frames.
    pub fn entry_of_frames(&self, node: u32) -> Option<usize> {
        self.entry_of(node).filter(|at| self.inputs.get(*at).is_some_and(|input| input.has_frames))
    }

    fn input_of(&mut self, node: u32) -> Option<&mut EntryInput> {
        let entry = self.entry_of(node)?;
        self.inputs.get_mut(entry)
    }

    fn entry_of(&self, node: u32) -> Option<usize> {
        Some(self.plan.nodes.get(node as usize)?.entry? as usize)
    }

    /// How many packets had the class that their tag or note said.
    pub fn tagged(&self) -> u64 {
        self.tagged
    }

    /// The class that a program in front noted. It read the headers as this host does.
    #[inline]
    fn noted(&self, entry: u32, packet: &Packet) -> Option<LeafId> {
        let leaf = Fcb(packet.fcb()).noted(self.inputs[entry as usize].note?);
        leaf.filter(|leaf| usize::from(*leaf) < self.plan.leaves.len())
    }

    /// The class that a program in front noted, and the one that a tag denotes. There is at most
    /// one: no program in front notes a class where there is a tag.
    #[inline]
    pub(super) fn in_front(
        &self,
        entry: u32,
        packet: &mut Packet,
    ) -> Result<(Option<LeafId>, Option<LeafId>), UnknownTag> {
        match self.noted(entry, packet) {
            Some(leaf) => Ok((Some(leaf), None)),
            None => Ok((None, self.take_tag(entry, packet)?)),
        }
    }

    /// Removes the tag of a switch or another host from a packet, and returns its class, if the tag
    /// is trusted.
    #[inline]
    fn take_tag(&self, entry: u32, packet: &mut Packet) -> Result<Option<LeafId>, UnknownTag> {
        let input = &self.inputs[entry as usize];
        let Some(Tags { source, refuse_unknown }) = input.tags else { return Ok(None) };
        let (Some(number), Some(trusted)) = (source.take(packet), input.trusted) else {
            return Ok(None);
        };
        let leaf = source.kind().class(trusted, number);
        match leaf.filter(|leaf| usize::from(*leaf) < self.plan.leaves.len()) {
            None if refuse_unknown => Err(UnknownTag),
            leaf => Ok(leaf),
        }
    }
}

/// Whether the device that tagged a packet has parsed it as this host does. A packet that is no
/// frame has no EtherType, and its type in another host's frame is unknown.
#[inline]
pub(super) fn is_read_alike(
    is_frame: bool,
    headers: &ParsedHeaders,
    view: &PacketView<'_>,
) -> bool {
    match is_frame {
        true => is_as_a_switch_reads_it(headers, view),
        false => headers.family != Family::Other && is_plain_ip(headers, view),
    }
}

/// Whether ports are where all readers look for them.
#[inline]
fn is_plain_ip(headers: &ParsedHeaders, view: &PacketView<'_>) -> bool {
    let header_len = view.network.len().saturating_sub(view.transport.len());
    let is_plain = headers.family == Family::V4 || header_len == IPV6_HEADER_LEN;
    is_plain && !view.network.is_empty() && headers.kind != Kind::Fragment
}

/// Whether a switch parses a packet as classification does. It does not if one follows headers that
/// the other does not: VLAN tags, IEEE 802.2, extension headers of IPv6, fragments, or a version of
/// IP other than the EtherType's.
#[inline]
fn is_as_a_switch_reads_it(headers: &ParsedHeaders, view: &PacketView<'_>) -> bool {
    let ethertype = view.frame.get(12..14).map(|two| u16::from_be_bytes([two[0], two[1]]));
    match (ethertype, headers.family) {
        (Some(ETHERTYPE_IPV4), Family::V4) | (Some(ETHERTYPE_IPV6), Family::V6) => {
            is_plain_ip(headers, view)
        }
        (Some(ETHERTYPE_IPV4 | ETHERTYPE_IPV6), _) | (None, _) => false,
        (Some(other), Family::Other) => other >= ETHERTYPE_MIN,
        (Some(_), _) => false,
    }
}
