//! Packets whose class a switch in front has found.

use thruway_packet::Packet;

use crate::key::PacketView;
use crate::manager::flow_manager::Manager;
use crate::manager::headers::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Kind, ParsedHeaders};
use crate::plan::{Family, LeafId};
use crate::tags::{self, Generation};

/// Bytes of an IPv6 header (RFC 8200, section 3).
const IPV6_HEADER_LEN: usize = 40;
/// Below, the field is a length (IEEE 802.3, section 3.2.6).
const ETHERTYPE_MIN: u16 = 0x600;

impl Manager {
    /// Trusts the tags of a generation, or none, at the classifier `node`, if its packets are of
    /// [`Input::Tagged`](super::Input). A new manager trusts none.
    pub fn trust(&mut self, node: u32, tags: Option<Generation>) {
        if let Some(trusted) = self.entry_of(node).and_then(|at| self.trusted.get_mut(at)) {
            *trusted = tags;
        }
    }

    /// The tags that are trusted at the classifier `node`.
    pub fn trusted(&self, node: u32) -> Option<Generation> {
        self.entry_of(node).and_then(|at| *self.trusted.get(at)?)
    }

    /// Notes that packets which come to the classifier `node` are read as frames of Ethernet.
    pub fn note_frames(&mut self, node: u32) {
        if let Some(noted) = self.entry_of(node).and_then(|at| self.has_frames.get_mut(at)) {
            *noted = true;
        }
    }

    /// Where frames that come to the classifier `node` enter the decision: the index among the
    /// plan's entries. `None`: it is no classifier, or reads no frames.
    pub fn entry_of_frames(&self, node: u32) -> Option<usize> {
        self.entry_of(node).filter(|entry| self.has_frames.get(*entry) == Some(&true))
    }

    fn entry_of(&self, node: u32) -> Option<usize> {
        Some(self.plan.nodes.get(node as usize)?.entry? as usize)
    }

    /// How many packets had the class that their tag said.
    pub fn tagged(&self) -> u64 {
        self.tagged
    }

    /// Takes a switch's tag off a packet: the class that it stands for.
    #[inline]
    pub(super) fn take_tag(&self, entry: u32, packet: &mut Packet) -> Option<LeafId> {
        let tag = tags::take(packet)?;
        let leaf = self.trusted[entry as usize]?.class(tag);
        leaf.filter(|leaf| usize::from(*leaf) < self.plan.leaves.len())
    }
}

/// Whether a switch sees in a packet what classes look at. It does not where one follows headers
/// that the other does not: VLAN tags, IEEE 802.2, extension headers of IPv6, fragments, or a
/// version of IP that is not the EtherType's.
#[inline]
pub(super) fn is_as_a_switch_reads_it(headers: &ParsedHeaders, view: &PacketView<'_>) -> bool {
    let ethertype = view.frame.get(12..14).map(|two| u16::from_be_bytes([two[0], two[1]]));
    match (ethertype, headers.family) {
        (Some(ETHERTYPE_IPV4), Family::V4) => {
            !view.network.is_empty() && headers.kind != Kind::Fragment
        }
        (Some(ETHERTYPE_IPV6), Family::V6) => {
            let header_len = view.network.len().saturating_sub(view.transport.len());
            header_len == IPV6_HEADER_LEN && headers.kind != Kind::Fragment
        }
        (Some(ETHERTYPE_IPV4 | ETHERTYPE_IPV6), _) | (None, _) => false,
        (Some(other), Family::Other) => other >= ETHERTYPE_MIN,
        (Some(_), _) => false,
    }
}
