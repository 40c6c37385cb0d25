//! FastUDPSource: UDP packets of one flow.

use thruway_element::{Arg, ArgErrors, Args, Element, Entry, Operation, Replicas, Spec, Topic, Ty};

use super::flows::{Flow, Flows, Kind};
use thruway_elements_support::random::Random;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Flows>(
    Spec {
        name: "FastUDPSource",
        topic: Topic::Sources,
        summary: "makes UDP packets of one flow",
        docs: "Makes Ethernet packets of LENGTH bytes (at least 60) with UDP in IP, RATE a second (0 \
               for as many as are pulled), LIMIT in all, all with the same addresses and ports. \
               With INTERVAL, both ports grow by 1 after so many packets.",
        example: "FastUDPSource(0, 10, 60, 0:0:0:0:0:1, 1.0.0.1, 1234, 0:0:0:0:0:2, 2.0.0.2, 1234, \
                  STOP true) -> Unqueue -> Discard",
        ports: "0/1",
        processing: "/l",
        args: &[
            Arg::required("RATE", Ty::UInt, "packets a second; 0 for no limit"),
            Arg::required("LIMIT", Ty::Int, "packets in all; -1 for no limit"),
            Arg::required("LENGTH", Ty::UInt, "bytes of a packet, Ethernet header included"),
            Arg::required("SRCETH", Ty::Ether, "source Ethernet address"),
            Arg::required("SRCIP", Ty::Ip, "source IP address"),
            Arg::required("SPORT", Ty::Port, "source port"),
            Arg::required("DSTETH", Ty::Ether, "destination Ethernet address"),
            Arg::required("DSTIP", Ty::Ip, "destination IP address"),
            Arg::required("DPORT", Ty::Port, "destination port"),
            Arg::optional("CHECKSUM", Ty::Bool, "whether UDP checksums are computed").or("true"),
            Arg::optional("INTERVAL", Ty::UInt, "packets before ports grow; 0 for never").or("0"),
            Arg::optional("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
            Arg::keyword("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
        ],
        cost: &[Operation::Make.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<Flows>();

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let [a, b] = args.get::<u16>("SPORT")?.to_be_bytes();
    let [c, d] = args.get::<u16>("DPORT")?.to_be_bytes();
    let kind = Kind::UdpInOrder { checksum: args.get("CHECKSUM")? };
    let flow = Flow { ports: [a, b, c, d], sent: 0 };
    let interval = args.get("INTERVAL")?;
    Ok(Box::new(Flows::new(args, kind, vec![flow], (interval, Random::from_seed(0)))?))
}
