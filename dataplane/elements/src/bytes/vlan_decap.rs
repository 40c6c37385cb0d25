//! VLANDecap: the VLAN tag off Ethernet frames.

use thruway_element::{Arg, ArgErrors, Args, Changes, Cost, Cx, Element, Entry, Spec, Topic, Ty};
use thruway_packet::{Anno, Batch, Packet};

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
        args: &[
            Arg::optional("ANNO", Ty::Bool, "whether the annotation is set").or("true"),
            Arg::keyword("ETHERTYPE", Ty::UInt, "type of tags").or("0x8100"),
        ],
        cost: &[Cost { operation: "header-write", count: 1.0 }],
        changes: Changes::Frame,
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

/// Takes a tag of this type off; its control information, 0 when there was none.
#[inline]
fn take_tag(packet: &mut Packet, ethertype: u16) -> u16 {
    let Some(front) = packet.data_mut().first_chunk_mut::<18>() else { return 0 };
    if front[12..14] != ethertype.to_be_bytes() {
        return 0;
    }
    let tci = u16::from_be_bytes([front[14], front[15]]);
    front.copy_within(0..12, 4);
    // There are 18 bytes.
    let _ = packet.pull(4);
    tci
}

impl Element for VlanDecap {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            let tci = take_tag(packet, self.ethertype);
            packet.set_mac_offset(0);
            if self.anno {
                packet.set_anno_number(Anno::VLAN_TCI, tci.into());
            }
        }
    }
}
