//! ICMPIPEncap: packets become the data of ICMP messages.

use thruway_element::{Arg, ArgErrors, Args, Element, Entry, Replicas, Spec, Ty};
use thruway_wire::icmp_names;

use super::icmp_ping_encap::{self, IcmpPingEncap, PingMaker};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IcmpPingEncap>(
    Spec {
        name: "ICMPIPEncap",
        summary: "puts ICMP and IPv4 headers in front of packets",
        docs: "An ICMPPingEncap for messages of any TYPE and CODE. Each is a number or a name: \
               TYPE echo, unreachable, redirect..., CODE a word of that type. IDENTIFIER and the \
               sequence number stand behind the checksum whatever the type.",
        example: "InfiniteSource(DATA abc, LIMIT 1, STOP true) \
                  -> ICMPIPEncap(1.0.0.1, 2.0.0.2, redirect, host) -> CheckIPHeader -> Print(ok) \
                  -> Discard",
        straight: true,
        args: &[
            Arg::required("SRC", Ty::Ip, "source address"),
            Arg::required("DST", Ty::Ip, "destination address"),
            Arg::required("TYPE", Ty::Str, "ICMP type: a name or a number"),
            Arg::optional("CODE", Ty::Str, "ICMP code: a name or a number").or("0"),
            Arg::keyword("IDENTIFIER", Ty::UInt, "ICMP identifier").or("0"),
        ],
        replicas: Replicas::Apart("each has its part of the identifications"),
        ..icmp_ping_encap::ENTRY.spec
    },
    build,
);

/// The number that argument `name` means, by itself or as one of these names.
fn number(
    args: &Args<'_>,
    name: &str,
    names: &'static [icmp_names::Name],
) -> Result<u8, ArgErrors> {
    let word: String = args.get(name)?;
    let known = icmp_names::number(names, &word);
    known.map_or_else(|| args.parse(&word), Ok).map_err(|_| {
        let what = format!("'{word}' is no name or number from 0 to 255");
        args.error(name, what).into()
    })
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let kind = number(args, "TYPE", icmp_names::TYPES)?;
    let code = number(args, "CODE", icmp_names::codes(kind))?;
    let maker = PingMaker { kind, code, ..PingMaker::from_args(args, 255)? };
    Ok(Box::new(IcmpPingEncap { maker }))
}
