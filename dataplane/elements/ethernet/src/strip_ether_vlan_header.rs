//! StripEtherVLANHeader: the Ethernet header off frames with a VLAN tag.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::ethernet::ethertype;

use super::vlan_tag::native;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<StripEtherVlanHeader>(Spec {
    name: "StripEtherVLANHeader",
    aliases: &[Alias { name: "StripEtherVlanHeader", summary: "an older name" }],
    topic: Topic::Ethernet,
    summary: "takes Ethernet headers with VLAN tag off packets",
    docs: "Takes the 18 bytes of an Ethernet header with a tag of IEEE 802.1Q off packets and sets \
           the VLAN_TCI annotation to the tag's control information. From frames without a tag \
           the 14 bytes of the header are taken, and the annotation becomes NATIVE_VLAN; where \
           that is -1 they leave by output 1, or are dropped where there is none. So do packets \
           too short for their header.",
    example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> VLANEncap(VLAN_ID 5) \
              -> StripEtherVLANHeader -> Print -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: StripVlanDrop::DROPS,
    cost: &[Operation::HeaderMove.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet is not stripped.
    enum StripVlanDrop {
        TooShort = "too-short": "it ends before its Ethernet header does",
        NoTag = "no-tag": "it has no VLAN tag, and NATIVE_VLAN is -1",
    }
}

#[derive(Arguments, Handlers)]
struct StripEtherVlanHeader {
    /// VLAN of frames without a tag; -1 for none
    #[arg(optional, name = "NATIVE_VLAN", via = native, or = "0")]
    native: Option<u16>,
}

#[inline]
fn strip(packet: &mut Packet, native: Option<u16>) -> Result<(), StripVlanDrop> {
    let head = packet.data().first_chunk::<14>().ok_or(StripVlanDrop::TooShort)?;
    let (tci, len) = if u16::from_be_bytes([head[12], head[13]]) == ethertype::VLAN {
        let tag = packet.data().first_chunk::<18>().ok_or(StripVlanDrop::TooShort)?;
        (u16::from_be_bytes([tag[14], tag[15]]), 18)
    } else {
        (native.ok_or(StripVlanDrop::NoTag)?, 14)
    };
    packet.set_anno_number(Anno::VLAN_TCI, tci.into());
    packet.set_mac_offset(0);
    if packet.pull(len) { Ok(()) } else { Err(StripVlanDrop::TooShort) }
}

impl Element for StripEtherVlanHeader {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match strip(packet, self.native) {
            Ok(()) => Verdict::Pass,
            Err(bad) => Verdict::reject(1, bad),
        });
    }
}
