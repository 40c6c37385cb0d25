//! SetVLANAnno: the tag that an encapsulating element will use.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation,
    Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

use super::vlan_tag::TagChoice;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "SetVLANAnno",
        topic: Topic::Ethernet,
        summary: "sets the VLAN annotation",
        docs: "Sets the VLAN_TCI annotation of packets: to VLAN_TCI, or to what VLAN_ID and VLAN_PCP \
               make. VLANEncap(ANNO) and EtherVLANEncap with ANNO make a tag of it.",
        example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> SetVLANAnno(5, 3) \
                  -> VLANEncap(ANNO) -> Print -> Discard",
        straight: true,
        args: &[
            Arg::optional("VLAN_TCI", Ty::UInt, "control information"),
            Arg::optional("VLAN_PCP", Ty::UInt, "priority code point, 0 to 7").or("0"),
            Arg::keyword("VLAN_ID", Ty::UInt, "VLAN identifier, in place of VLAN_TCI"),
        ],
        handlers: &[
            Handler::both("vlan_tci", "control information"),
            Handler::both("vlan_id", "VLAN identifier"),
            Handler::both("vlan_pcp", "priority code point"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<SetVlanAnno>();

struct SetVlanAnno {
    tag: TagChoice,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    if !args.given("VLAN_TCI") && !args.given("VLAN_ID") {
        return Err(ArgErrors::whole("missing argument VLAN_TCI (or VLAN_ID)"));
    }
    Ok(Box::new(SetVlanAnno { tag: TagChoice::from_args(args, false)? }))
}

impl Element for SetVlanAnno {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.set_anno_number(Anno::VLAN_TCI, self.tag.fixed().into());
        }
    }
}

impl Handlers for SetVlanAnno {
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
        match (name, value.trim()) {
            ("vlan_tci", "ANNO") => Err(HandlerError::refused("vlan_tci: expected a number")),
            _ => self.tag.write(name, value),
        }
    }
}
