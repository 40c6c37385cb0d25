//! RawSocket: IP packets of one protocol, past the host's own use of it.

use thruway_element::{Alias, Arg, ArgErrors, Args, Element, Entry, Replicas, Spec, Ty};
use thruway_wire::ip_protocol;

use super::transport::{self, Guard, Plan, Transport};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Transport>(
    Spec {
        name: "RawSocket",
        aliases: &[
            Alias { name: "FromRawSocket", summary: "the same; meant to have no input" },
            Alias { name: "ToRawSocket", summary: "the same, without holding the port" },
        ],
        summary: "sends IP packets as they are, emits those that the host receives",
        docs: "A raw IPv4 socket: packets of the protocol that this host receives are emitted, with \
               IP header, destination annotation and timestamp, and go to the host's programs as \
               well; packets that enter must begin with an IPv4 header and are sent to its \
               destination. (The kernel fills in the header's checksum and length.)\n\
               All of the protocol's packets come, whatever their ports. PORT, of TCP and UDP, is \
               held meanwhile: no other program can have it, and the host sends no port \
               unreachable for it. Elsewhere it is a number without effect. (Click, on the kernel \
               that it names, is given the port's packets alone.)\n\
               Longer packets than SNAPLEN are cut, with the EXTRA_LENGTH annotation; pushed packets \
               that the socket does not take are kept, 1,024 at most (64 of more than 1,856 bytes). Needs the right to open raw \
               sockets (CAP_NET_RAW). HEADROOM is accepted. FromRawSocket and ToRawSocket are \
               Click's older names.",
        example: "RawSocket(ICMP) -> IPPrint(seen) -> Discard",
        args: &[
            Arg::required("TYPE", Ty::Str, "TCP, UDP, GRE, ICMP, or a protocol's number"),
            Arg::optional("PORT", Ty::UInt, "a port to hold; a key or identifier"),
            transport::SNAPLEN,
            transport::TIMESTAMP,
            transport::HEADROOM,
            transport::BURST,
        ],
        replicas: Replicas::OneThread(
            "its socket sends what comes in one order; a Queue in front does, too",
        ),
        ..transport::SOCKET
    },
    build,
)
.with_buffer::<Transport>()
.with_hot_swap::<Transport>();

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let text: String = args.get("TYPE")?;
    let protocol = match text.to_ascii_uppercase().as_str() {
        "TCP" => ip_protocol::TCP,
        "UDP" => ip_protocol::UDP,
        "GRE" => ip_protocol::GRE,
        "ICMP" => ip_protocol::ICMP,
        number => number.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            let why = format!("'{text}' is not TCP, UDP, GRE, ICMP or a number from 1 to 255");
            args.error("TYPE", why)
        })?,
    };
    let has_ports = matches!(protocol, ip_protocol::TCP | ip_protocol::UDP);
    let port = match has_ports {
        true => args.opt::<u16>("PORT")?.filter(|port| *port > 0),
        false => args.opt::<u32>("PORT")?.and(None),
    };
    let held = port.filter(|_| args.class() != "ToRawSocket");
    Transport::build(args, Plan::raw(protocol, held), Guard::default())
}
