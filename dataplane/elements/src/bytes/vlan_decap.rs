//! VLANDecap: the VLAN tag off Ethernet frames.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

use super::vlan_tag::take_tag;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "VLANDecap",
        topic: Topic::Bytes,
        summary: "takes a VLAN tag off Ethernet frames",
        docs: "Takes the outermost VLAN tag, of type ETHERTYPE, off Ethernet frames; frames without \
               pass unchanged. With ANNO the tag's control information goes into the VLAN_TCI \
               annotation, 0 where there was no tag.",
        example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> VLANEncap(VLAN_ID 5) \
                  -> VLANDecap -> Print -> Discard",
        straight: true,
        args: &[
            Arg::optional("ANNO", Ty::Bool, "whether the annotation is set").or("true"),
            Arg::keyword("ETHERTYPE", Ty::UInt, "type of tags").or("0x8100"),
        ],
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Frame,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct VlanDecap {
    anno: bool,
    ethertype: u16,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(VlanDecap { anno: args.get("ANNO")?, ethertype: args.get("ETHERTYPE")? }))
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
