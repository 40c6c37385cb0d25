//! EtherVLANEncap: an Ethernet header with a VLAN tag in front.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec,
    Topic, Verdict,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::MacAddr;
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::vlan::VlanTag;

use super::vlan_tag::TagChoice;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<EtherVlanEncap>(Spec {
    name: "EtherVLANEncap",
    aliases: &[Alias { name: "EtherVlanEncap", summary: "an older name" }],
    topic: Topic::Ethernet,
    summary: "puts an Ethernet header with a VLAN tag in front of packets",
    docs: "Puts the 18 bytes of an Ethernet header with a tag of IEEE 802.1Q in front of every \
           packet and marks it as the link-layer header. The tag's control information is \
           VLAN_TCI, or what VLAN_ID and VLAN_PCP make, or that of the VLAN_TCI annotation where \
           VLAN_TCI is ANNO. Packets with the identifier NATIVE_VLAN get a plain header of \
           14 bytes.",
    example: "InfiniteSource(LIMIT 1, STOP true) \
              -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 1) -> Print -> Discard",
    straight: true,
    cost: &[Operation::HeaderWrite.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(both, field = src, "source address", get = self.src.dashed())]
#[handler(both, field = dst, "destination address", get = self.dst.dashed())]
#[handler(both, field = ethertype, "the type of the payload")]
struct EtherVlanEncap {
    /// the type of the payload: 0x0800 for IP
    #[arg(required)]
    ethertype: u16,
    /// source address
    #[arg(required)]
    src: MacAddr,
    /// destination address
    #[arg(required)]
    dst: MacAddr,
    #[part]
    tag: TagChoice,
}

impl EtherVlanEncap {
    #[inline]
    fn encap(&self, packet: &mut Packet) -> Verdict {
        let tci = self.tag.of(packet);
        let len = EthernetHeader::LEN + if tci.is_some() { VlanTag::LEN } else { 0 };
        if !packet.push(len) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let data = packet.data_mut();
        let outer = if tci.is_some() { ethertype::VLAN } else { self.ethertype };
        // There is room: it was just pushed.
        let _ = EthernetHeader::new(self.dst, self.src, outer).emit(data);
        if let Some(tci) = tci {
            let _ = VlanTag::new(tci, self.ethertype).emit(&mut data[EthernetHeader::LEN..]);
        }
        packet.set_mac_offset(0);
        Verdict::Pass
    }
}

impl Element for EtherVlanEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.encap(packet));
    }
}
