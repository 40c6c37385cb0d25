//! UDPRewriter: rewrites addresses and ports of UDP, TCP and DCCP.

use thruway_element::{Alias, Arg, Entry, Spec, Ty};

use crate::rewriters::build::{self, build, taken};
use crate::rewriters::class::Class;
use crate::rewriters::rewriter::Rewriter;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "UDPRewriter",
        aliases: &[Alias {
            name: "UDPRewriterIMP",
            summary: "FastClick's name; threads know each other's mappings here too",
        }],
        summary: "rewrites addresses and ports of UDP, TCP and DCCP",
        docs: "IPRewriter with one set of timeouts: see there for the INPUTSPECs, for what keeps mappings \
               and for threads. In spite of its name it takes TCP and DCCP too, and does not look at \
               what their packets say of a connection's end. A mapping is over TIMEOUT after its last \
               packet, or STREAMING_TIMEOUT once it had three packets and one of them was a reply.",
        example: "FromIPSummaryDump(-, STOP true) -> CheckIPHeader \
                  -> rw :: UDPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> IPPrint(out) -> IPMirror \
                  -> [1]rw; rw[1] -> IPPrint(back) -> Discard",
        args: taken![
            Arg::keyword("TIMEOUT", Ty::Time, "timeout of mappings").or("300"),
            Arg::keyword("UDP_TIMEOUT", Ty::Time, "TIMEOUT, as IPRewriter calls it"),
            Arg::keyword(
                "STREAMING_TIMEOUT",
                Ty::Time,
                "timeout of mappings with three packets and a reply; TIMEOUT if not given",
            ),
            Arg::keyword(
                "UDP_STREAMING_TIMEOUT",
                Ty::Time,
                "STREAMING_TIMEOUT, as IPRewriter calls it",
            ),
            Arg::keyword("UDP_GUARANTEE", Ty::Time, "GUARANTEE, as IPRewriter calls it"),
        ],
        handlers: build::ONE_TABLE,
        ..build::REWRITER
    },
    |args| build(args, Class::Udp),
)
.with_cost_model::<Rewriter>()
.with_hot_swap::<Rewriter>()
.with_handlers::<Rewriter>();
