//! SetIPECN: explicit congestion notification into IP headers.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation, Replicas,
    Spec, Topic, Ty,
};
use thruway_packet::Batch;

use super::set_ip_dscp::{NoHeader, set_tos};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<SetIpEcn>(
    Spec {
        name: "SetIPECN",
        topic: Topic::Ip,
        summary: "sets the congestion notification bits of IP packets",
        docs: "Sets the lower two bits of the type of service (RFC 3168) and updates the header \
               checksum. ECN is a number from 0 to 3 or its name: no (0), ect1 or ECT(1) (1), ect2 or \
               ECT(0) (2), ce or CE (3). Packets whose IP header is not marked are dropped.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> MarkIPHeader -> SetIPECN(ce) -> CheckIPHeader -> Print(ok) -> Discard",
        straight: true,
        args: &[Arg::required("ECN", Ty::Any, "0 to 3, no, ect1, ect2 or ce")],
        drops: NoHeader::DROPS,
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Headers,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
struct SetIpEcn {
    ecn: u8,
    /// As written.
    #[handler(both, name = "ecn", "the two bits as written", write = self.write_ecn(value))]
    text: String,
}

fn parse(text: &str) -> Result<u8, String> {
    Ok(match text.trim() {
        "0" | "no" | "-" => 0,
        "1" | "ect1" | "ECT(1)" => 1,
        "2" | "ect2" | "ECT(0)" => 2,
        "3" | "ce" | "CE" => 3,
        other => return Err(format!("'{other}' is none of 0 to 3, no, ect1, ect2, ce")),
    })
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let text: String = args.get("ECN")?;
    let ecn = parse(&text).map_err(|why| args.error("ECN", why))?;
    Ok(Box::new(SetIpEcn { ecn, text }))
}

impl SetIpEcn {
    fn write_ecn(&mut self, value: &str) -> Result<(), HandlerError> {
        let refused = |why| HandlerError::refused(format!("ecn: {why}"));
        self.ecn = parse(value).map_err(refused)?;
        self.text = value.trim().to_owned();
        Ok(())
    }
}

impl Element for SetIpEcn {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| set_tos(packet, 0xfc, self.ecn));
    }
}
