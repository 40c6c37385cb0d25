//! GTPEncap: puts GTP headers in front of packets.

use thruway_element::{Arg, ArgErrors, Args, Element, Entry, Handler, Spec, Ty};
use thruway_wire::Header;
use thruway_wire::gtp::{G_PDU, GtpHeader};

use super::tunnel::{self, End, Tunnel, handlers};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "GTPEncap",
        summary: "puts GTP headers in front of packets",
        docs: "Puts the 8 bytes of a GTP version 1 user plane header (3GPP TS 29.281), without sequence number, in front of every packet. TEID is the tunnel; 0 takes it from the AGGREGATE annotation. UDP and IP headers are for UDPIPEncap, with port 2152. Packets of more than 65,535 bytes leave by output 1, or are dropped where there is none.",
        example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> GTPEncap(7) -> GTPDecap -> Print \
                  -> Discard",
        args: &[Arg::required("TEID", Ty::UInt, "the tunnel; 0 for that of the annotation")],
        handlers: &HANDLERS,
        ..tunnel::ENCAP
    },
    build,
)
.with_handlers::<End>();

const HANDLERS: [Handler; 1] = handlers("teid");
/// GTP version 1, user plane (3GPP TS 29.281).
pub(super) static GTP: Tunnel = Tunnel {
    argument: "TEID",
    handler: "teid",
    max: u32::MAX,
    header: |teid, len| {
        let mut bytes = [0; 8];
        GtpHeader::new(teid, len).ok()?.emit(&mut bytes).ok()?;
        Some(bytes)
    },
    parse: |bytes| {
        let (header, payload) = GtpHeader::payload(bytes).ok()?;
        if header.message_type() != G_PDU {
            return None;
        }
        let end = GtpHeader::parse_with_options(bytes)
            .ok()
            .map(|(_, options, rest)| GtpHeader::LEN + options.len() + rest.len())?;
        Some((header.teid(), end - payload.len(), end))
    },
};

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    End::build(args, &GTP, true)
}
