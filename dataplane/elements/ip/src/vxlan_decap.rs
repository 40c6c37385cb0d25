//! VXLANDecap: takes VXLAN headers off.

use super::tunnel::{self, End, handlers};
use super::vxlan_encap::VXLAN;
use thruway_element::{Arg, ArgErrors, Args, Element, Entry, Handler, Spec, Ty};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "VXLANDecap",
        summary: "takes VXLAN headers off",
        docs: "Expects packets that begin with a VXLAN header (RFC 7348): the payload of UDP port 4789. Takes it off and sets the AGGREGATE annotation to the network. Packets without such a header, and with a VNI that is not 0 those of other networks, leave by output 1, or are dropped where there is none.",
        example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> VXLANEncap(7) -> VXLANDecap(7) \
                  -> Print -> Discard",
        args: &[Arg::optional("VNI", Ty::UInt, "the network, or 0 for any").or("0")],
        handlers: &HANDLERS,
        ..tunnel::DECAP
    },
    build,
)
.with_handlers::<End>();

const HANDLERS: [Handler; 1] = handlers("vni");
fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    End::build(args, &VXLAN, false)
}
