//! VLANEncap: a VLAN tag into Ethernet frames.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Batch, Packet};

use super::vlan_tag::{TagChoice, put_tag};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<VlanEncap>(Spec {
    name: "VLANEncap",
    topic: Topic::Ethernet,
    summary: "puts a VLAN tag into Ethernet frames",
    docs: "Expects Ethernet frames and puts a tag of IEEE 802.1Q behind their addresses: type \
           ETHERTYPE and the control information VLAN_TCI, or that of the annotation where \
           VLAN_TCI is ANNO. Instead of VLAN_TCI its parts may be given, VLAN_ID and VLAN_PCP. \
           Frames with the identifier NATIVE_VLAN get no tag. A second tag in front of a \
           first (QinQ, IEEE 802.1ad) has ETHERTYPE 0x88a8. Packets too short for two addresses \
           are dropped. VLANDecap takes a tag off.",
    example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> VLANEncap(VLAN_ID 5) -> Print \
              -> VLANDecap -> Discard",
    straight: true,
    drops: Short::DROPS,
    cost: &[Operation::HeaderWrite.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it has less than the 12 bytes of two Ethernet addresses",
    }
}

#[derive(Arguments, Handlers)]
struct VlanEncap {
    #[part]
    tag: TagChoice,
    /// type of the tag
    #[arg(keyword, or = "0x8100")]
    ethertype: u16,
}

/// Puts a tag into a frame, if it is one.
#[inline]
fn tagged(packet: &mut Packet, ethertype: u16, tci: u16) -> Verdict {
    if packet.len() < 12 {
        return Verdict::drop(Short::TooShort);
    }
    if put_tag(packet, ethertype, tci) { Verdict::Pass } else { Verdict::Drop(Reason::NO_MEMORY) }
}

impl Element for VlanEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match self.tag.of(packet) {
            Some(tci) => tagged(packet, self.ethertype, tci),
            None => Verdict::Pass,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vlan_decap;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;

    proptest! {
        /// What VLANDecap takes off is what was put on, however little head room there is.
        #[test]
        fn round_trip(bytes in prop::collection::vec(any::<u8>(), 0..80), tci: u16, room in 0usize..2) {
            let mut encap = Rig::new(&ENTRY, &[tci.to_string().as_str(), "NATIVE_VLAN -1"], 1).unwrap();
            let mut decap = Rig::new(&vlan_decap::ENTRY, &[""; 0], 1).unwrap();
            let mut packet = Packet::new(&bytes).unwrap();
            let head = packet.headroom() * room;
            prop_assert!(packet.push(head) && packet.pull(head));
            let mut out = encap.push([packet]);
            if bytes.len() < 12 {
                prop_assert!(out[0].is_empty() && encap.drops()[0] == 1);
                return Ok(());
            }
            prop_assert_eq!(&out[0][0].data()[12..16], &[0x81, 0, (tci >> 8) as u8, tci as u8]);
            let back = decap.push(out.remove(0));
            if bytes.len() >= 14 {
                prop_assert_eq!(back[0][0].data(), &bytes[..]);
            }
        }
    }
}
