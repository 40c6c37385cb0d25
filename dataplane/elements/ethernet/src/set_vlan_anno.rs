//! SetVLANAnno: the tag that an encapsulating element will use.

use thruway_element::{
    ArgErrors, Args, Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation,
    Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

use super::vlan_tag::{self, MAX_ID, TagChoice};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SetVlanAnno>(Spec {
    name: "SetVLANAnno",
    topic: Topic::Ethernet,
    summary: "sets the VLAN annotation",
    docs: "Sets the VLAN_TCI annotation of packets: to VLAN_TCI, or to what VLAN_ID and VLAN_PCP \
           make. VLANEncap(ANNO) and EtherVLANEncap with ANNO make a tag of it.",
    example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> SetVLANAnno(5, 3) \
              -> VLANEncap(ANNO) -> Print -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct SetVlanAnno {
    #[arg(optional, name = "VLAN_TCI", unread, ty = Ty::UInt, "control information")]
    #[arg(
        optional, name = "VLAN_PCP", value = u8, via = vlan_tag::pcp, or = "0",
        "priority code point, 0 to 7"
    )]
    #[arg(
        keyword, name = "VLAN_ID", value = Option<u16>, via = vlan_tag::id,
        "VLAN identifier, in place of VLAN_TCI"
    )]
    #[new(TagChoice::new(fixed(args, vlan_pcp, vlan_id)?))]
    #[handler(
        both, name = "vlan_tci", "control information",
        get = self.tag.tci_text(), write = self.write_tci(value)
    )]
    #[handler(
        both, name = "vlan_id", "VLAN identifier",
        get = (self.tag.fixed() & MAX_ID), write = self.tag.write_id(value)
    )]
    #[handler(
        both, name = "vlan_pcp", "priority code point",
        get = (self.tag.fixed() >> 13), write = self.tag.write_pcp(value)
    )]
    tag: TagChoice,
}

fn fixed(args: &Args<'_>, pcp: u8, id: Option<u16>) -> Result<Option<u16>, ArgErrors> {
    if !args.given("VLAN_TCI") && !args.given("VLAN_ID") {
        return Err(ArgErrors::whole("missing argument VLAN_TCI (or VLAN_ID)"));
    }
    Ok(vlan_tag::fixed(args, pcp, id, false)?)
}

impl SetVlanAnno {
    fn write_tci(&mut self, value: &str) -> Result<(), HandlerError> {
        match value.trim() {
            "ANNO" => Err(HandlerError::refused("vlan_tci: expected a number")),
            _ => self.tag.write_tci(value),
        }
    }
}

impl Element for SetVlanAnno {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.set_anno_number(Anno::VLAN_TCI, self.tag.fixed().into());
        }
    }
}
