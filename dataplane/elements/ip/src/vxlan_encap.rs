//! VXLANEncap: puts VXLAN headers in front of Ethernet frames.

use thruway_element::{Arg, ArgErrors, Args, Element, Entry, Handler, Spec, Ty};
use thruway_wire::Header;
use thruway_wire::vxlan::VxlanHeader;

use super::tunnel::{self, End, Tunnel, handlers};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "VXLANEncap",
        summary: "puts VXLAN headers in front of Ethernet frames",
        docs: "Puts the 8 bytes of a VXLAN header (RFC 7348) in front of every Ethernet frame. VNI is the network; 0 takes it from the AGGREGATE annotation. UDP and IP headers are for UDPIPEncap, with destination port 4789.",
        example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> VXLANEncap(7) \
                  -> UDPIPEncap(1.0.0.1, 50000, 2.0.0.2, 4789, false) -> CheckIPHeader -> Strip(28) \
                  -> VXLANDecap(7) -> Print -> Discard",
        args: &[Arg::required(
            "VNI",
            Ty::UInt,
            "the network, 0 to 16777215; 0 for that of the annotation",
        )],
        handlers: &HANDLERS,
        ..tunnel::ENCAP
    },
    build,
)
.with_handlers::<End>();

const HANDLERS: [Handler; 1] = handlers("vni");
/// VXLAN (RFC 7348).
pub(super) static VXLAN: Tunnel = Tunnel {
    argument: "VNI",
    handler: "vni",
    max: 0xff_ffff,
    header: |vni, _| {
        let mut bytes = [0; 8];
        VxlanHeader::new(vni).emit(&mut bytes).ok()?;
        Some(bytes)
    },
    parse: |bytes| {
        let (header, payload) = VxlanHeader::parse(bytes).ok()?;
        Some((header.vni(), bytes.len() - payload.len(), bytes.len()))
    },
};

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    End::build(args, &VXLAN, true)
}
