//! VLANDecap: the VLAN tag off Ethernet frames.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Anno, Batch};

use super::vlan_tag::take_tag;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<VlanDecap>(Spec {
    name: "VLANDecap",
    topic: Topic::Ethernet,
    summary: "takes a VLAN tag off Ethernet frames",
    docs: "Takes the outermost VLAN tag, of type ETHERTYPE, off Ethernet frames; frames without \
           pass unchanged. With ANNO the tag's control information goes into the VLAN_TCI \
           annotation, 0 where there was no tag.",
    example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> VLANEncap(VLAN_ID 5) \
              -> VLANDecap -> Print -> Discard",
    straight: true,
    cost: &[Operation::HeaderWrite.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct VlanDecap {
    /// whether the annotation is set
    #[arg(optional, or = "true")]
    anno: bool,
    /// type of tags
    #[arg(keyword, or = "0x8100")]
    ethertype: u16,
}

impl Element for VlanDecap {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            let tci = take_tag(packet, self.ethertype).unwrap_or(0);
            packet.set_mac_offset(0);
            if self.anno {
                packet.set_anno_number(Anno::VLAN_TCI, tci.into());
            }
        }
    }
}
