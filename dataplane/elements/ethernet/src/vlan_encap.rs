//! VLANEncap: a VLAN tag into Ethernet frames.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation,
    Reason, Replicas, Spec, Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};

use super::vlan_tag::{TagChoice, put_tag};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "VLANEncap",
        topic: Topic::Ethernet,
        summary: "puts a VLAN tag into Ethernet frames",
        docs: "Expects Ethernet frames and puts a tag of IEEE 802.1Q behind their addresses: type \
               ETHERTYPE and the control information VLAN_TCI, or that of the annotation where \
               VLAN_TCI is ANNO. Instead of VLAN_TCI its parts may be given, VLAN_ID and VLAN_PCP. \
               Frames whose identifier would be NATIVE_VLAN get no tag. A second tag in front of a \
               first (QinQ, IEEE 802.1ad) has ETHERTYPE 0x88a8. Packets too short for two addresses \
               are dropped. VLANDecap takes a tag off.",
        example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> VLANEncap(VLAN_ID 5) -> Print \
                  -> VLANDecap -> Discard",
        straight: true,
        args: &[
            Arg::optional("VLAN_TCI", Ty::Any, "control information, or ANNO"),
            Arg::optional("VLAN_PCP", Ty::UInt, "priority code point, 0 to 7").or("0"),
            Arg::keyword("VLAN_ID", Ty::UInt, "VLAN identifier, in place of VLAN_TCI"),
            Arg::keyword("NATIVE_VLAN", Ty::Int, "identifier that has no tag; -1 for none").or("0"),
            Arg::keyword("ETHERTYPE", Ty::UInt, "type of the tag").or("0x8100"),
        ],
        drops: Short::DROPS,
        handlers: &[
            Handler::both("vlan_tci", "control information, or ANNO"),
            Handler::both("vlan_id", "VLAN identifier"),
            Handler::both("vlan_pcp", "priority code point"),
            Handler::both("native_vlan", "identifier that has no tag; -1 for none"),
        ],
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Frame,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<VlanEncap>();

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it has less than the 12 bytes of two Ethernet addresses",
    }
}

struct VlanEncap {
    tag: TagChoice,
    ethertype: u16,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let tag = TagChoice::from_args(args, true)?;
    Ok(Box::new(VlanEncap { tag, ethertype: args.get("ETHERTYPE")? }))
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

impl Handlers for VlanEncap {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        self.tag.read(name)
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.tag.write(name, value)
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
