//! IPEncap: an IPv4 header in front.

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Ty,
};
use thruway_packet::Batch;
use thruway_wire::ip_protocol;
use thruway_wire::ipv4::DONT_FRAGMENT;

use super::outer::{Destination, Encap, Outer};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IpEncap>(
    Spec {
        name: "IPEncap",
        topic: Topic::Ip,
        summary: "puts an IPv4 header in front of packets",
        docs: "Puts an IPv4 header without options in front of every packet, marks it and sets the \
               destination annotation to its destination. With protocol ipip (4) that is a tunnel \
               (RFC 2003), whose other end is CheckIPHeader and StripIPHeader. Identifications \
               count up. DST may be DST_ANNO, which takes the address from the destination \
               annotation. PROTO is a number or a name such as ipip, udp, gre.\n\n\
               TOS gives the whole type of service, or DSCP its upper six bits and ECT and CE the \
               lower two (ECT true or 1: 1; ECT 2: 2; CE: 3). Packets that would grow beyond \
               65,535 bytes are dropped.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> IPEncap(ipip, 18.26.4.24, 140.247.60.147) -> CheckIPHeader -> StripIPHeader \
                  -> CheckIPHeader -> Print(ok) -> Discard",
        straight: true,
        args: &[
            Arg::required("PROTO", Ty::Any, "protocol of the payload, number or name"),
            Arg::required("SRC", Ty::Ip, "source address"),
            Arg::required("DST", Ty::Any, "destination address, or DST_ANNO"),
            Arg::keyword("TTL", Ty::UInt, "time-to-live in hops").or("250"),
            Arg::keyword("DSCP", Ty::UInt, "code point, 0 to 63").or("0"),
            Arg::keyword("ECT", Ty::Any, "true for ECT(1), 2 for ECT(0)").or("false"),
            Arg::keyword("CE", Ty::Bool, "whether congestion was experienced").or("false"),
            Arg::keyword("TOS", Ty::UInt, "type of service, in place of DSCP, ECT and CE"),
            Arg::keyword("DF", Ty::Bool, "whether it must not be fragmented").or("false"),
        ],
        drops: Encap::DROPS,
        cost: &[Operation::HeaderWrite.once()],
        replicas: Replicas::Apart("each has its part of the identifications"),
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
#[handler(
    both, name = "src", "source address", read = self.outer.read(name),
    write = self.outer.write(name, value)
)]
#[handler(
    both, name = "dst", "destination address, or DST_ANNO", read = self.outer.read(name),
    write = self.outer.write(name, value)
)]
struct IpEncap {
    outer: Outer,
}

/// The argument PROTO.
fn protocol(args: &Args<'_>) -> Result<u8, ArgError> {
    let text: String = args.get("PROTO")?;
    match ip_protocol::from_name(&text.to_ascii_lowercase()) {
        Some(protocol) => Ok(protocol),
        None => args.parse(&text).map_err(|why| {
            args.error("PROTO", format!("{why}; write 0 to 255 or a name such as ipip, udp, gre"))
        }),
    }
}

/// The type of service that the arguments give.
fn tos(args: &Args<'_>) -> Result<u8, ArgError> {
    let finer = ["DSCP", "ECT", "CE"].into_iter().find(|name| args.given(name));
    if let Some(tos) = args.opt("TOS")? {
        return match finer {
            Some(name) => Err(args.error(name, "cannot be given together with TOS")),
            None => Ok(tos),
        };
    }
    let dscp: u8 = args.get("DSCP")?;
    if dscp > 63 {
        return Err(args.error("DSCP", "out of range; it must be from 0 to 63"));
    }
    let ect = match args.get::<String>("ECT")?.as_str() {
        "2" => 2,
        _ => u8::from(args.get::<bool>("ECT")?),
    };
    let ce: bool = args.get("CE")?;
    if ce && ect != 0 {
        return Err(args.error("CE", "cannot be given together with ECT"));
    }
    Ok(dscp << 2 | if ce { 3 } else { ect })
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let dst = args.get::<Destination>("DST")?;
    let mut outer = Outer::new(args, protocol(args)?, args.get("SRC")?, dst);
    let header = outer.header();
    header.set_ttl(args.get("TTL")?);
    header.set_tos(tos(args)?);
    if args.get("DF")? {
        header.set_flags_offset(DONT_FRAGMENT);
    }
    Ok(Box::new(IpEncap { outer }))
}

impl Element for IpEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.outer.encap(packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;
    use thruway_packet::Packet;
    use thruway_wire::Header;
    use thruway_wire::ipv4::Ipv4Header;

    proptest! {
        /// The output parses, has a right checksum, and contains the input; too long a packet is
        /// refused.
        #[test]
        fn round_trip(len in prop_oneof![0usize..100, 65_500usize..65_530], first: u8) {
            let mut rig = Rig::new(&ENTRY, &["4", "1.0.0.1", "2.0.0.2", "DF true"], 1).unwrap();
            let mut body = vec![7; len];
            body.iter_mut().take(1).for_each(|byte| *byte = first);
            let Some(packet) = Packet::new(&body) else { return Ok(()) };
            let out = rig.push([packet]);
            if len + 20 > 65_535 {
                prop_assert_eq!(rig.drops()[0], 1);
                return Ok(());
            }
            if out[0].is_empty() {
                // No frame is that large.
                prop_assert!(len > 60_000 && rig.drops()[2] == 1);
                return Ok(());
            }
            let (header, payload) = Ipv4Header::parse(out[0][0].data()).unwrap();
            prop_assert!(header.checksum_ok(&[]) && header.dont_fragment());
            prop_assert_eq!((header.protocol(), header.ttl()), (4, 250));
            prop_assert_eq!(payload, &body[..]);
            prop_assert_eq!(out[0][0].dst_ip(), [2, 0, 0, 2]);
        }
    }
}
