//! GTPDecap: takes GTP headers off.

use super::gtp_encap::GTP;
use super::tunnel::{self, End, handlers};
use thruway_element::{Arg, ArgErrors, Args, Element, Entry, Handler, Spec, Ty};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "GTPDecap",
        summary: "takes GTP headers off",
        docs: "Expects packets that begin with a GTP version 1 user plane header (3GPP TS 29.281) and takes it off, with its optional fields, extension headers and what lies behind its length. The AGGREGATE annotation becomes the tunnel. Packets without such a header, other messages than a user's packet, and with a TEID that is not 0 those of other tunnels, leave by output 1, or are dropped where there is none.",
        example: "InfiniteSource(LENGTH 60, LIMIT 1, STOP true) -> GTPEncap(7) -> GTPDecap -> Print \
                  -> Discard",
        args: &[Arg::optional("TEID", Ty::UInt, "the tunnel, or 0 for any").or("0")],
        handlers: &HANDLERS,
        ..tunnel::DECAP
    },
    build,
)
.with_handlers::<End>();

const HANDLERS: [Handler; 1] = handlers("teid");
fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    End::build(args, &GTP, false)
}
