//! IPInputCombo: what a router does with frames first, in one element.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Ty, Verdict,
};
use thruway_packet::{Anno, Batch};
use thruway_wire::Header;
use thruway_wire::ethernet::EthernetHeader;

use super::check_ip_header::{CheckIpHeader, CheckIpHeaderDrop};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IpInputCombo>(
    Spec {
        name: "IPInputCombo",
        topic: Topic::Ip,
        summary: "does the input processing of an IP router",
        docs: "Does with every frame what Paint(COLOR) -> Strip(14) -> CheckIPHeader(...) -> \
               GetIPAddress(16) would do: the arguments but COLOR are those of CheckIPHeader. \
               Bad packets leave by output 1, or are dropped where there is none.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> IPInputCombo(1) -> Print(ok) \
                  -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::required("COLOR", Ty::UInt, "the paint, 0 to 255"),
            Arg::optional("BADSRC*", Ty::Any, "bad sources, in the old form"),
            Arg::keyword(
                "OFFSET",
                Ty::UInt,
                "where the IP header begins behind the Ethernet header",
            )
            .or("0"),
            Arg::keyword("INTERFACES", Ty::Any, "this router's addresses, as prefixes"),
            Arg::keyword("BADSRC", Ty::Any, "bad source addresses, with blanks between"),
            Arg::keyword("GOODDST", Ty::Any, "destinations that may have bad sources"),
            Arg::keyword("CHECKSUM", Ty::Bool, "whether the checksum is checked").or("true"),
            Arg::keyword("VERBOSE", Ty::Bool, "whether every bad packet is reported").or("false"),
            Arg::keyword("DETAILS", Ty::Bool, "whether drop_details can be read").or("false"),
        ],
        drops: CheckIpHeaderDrop::DROPS,
        cost: &[
            Operation::Annotate.once(),
            Operation::HeaderMove.once(),
            Operation::HeaderCheck.once(),
            Operation::ChecksumIp.once(),
        ],
        changes: Changes::Frame,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
struct IpInputCombo {
    /// the paint
    #[handler(read)]
    color: u8,
    #[part]
    check: CheckIpHeader,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (color, check) = (args.get("COLOR")?, CheckIpHeader::from_args(args)?);
    Ok(Box::new(IpInputCombo { color, check }))
}

impl Element for IpInputCombo {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let color = u32::from(self.color);
        cx.filter(batch, |packet| {
            packet.set_anno_number(Anno::PAINT, color);
            match packet.pull(EthernetHeader::LEN) {
                true => Verdict::Pass,
                false => self.check.note(CheckIpHeaderDrop::Tiny),
            }
        });
        self.check.process(cx, port, batch);
    }
}
