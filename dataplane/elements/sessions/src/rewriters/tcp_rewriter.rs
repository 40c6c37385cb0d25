//! TCPRewriter: rewrites addresses and ports of TCP, and sequence numbers where FTPPortMapper asks
//! for it.

use thruway_element::{Alias, Arg, Entry, Replicas, Spec, Ty};

use crate::rewriters::build::{self, build, shown, taken};
use crate::rewriters::class::Class;
use crate::rewriters::handlers;
use crate::rewriters::rewriter::Rewriter;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "TCPRewriter",
        aliases: &[Alias {
            name: "TCPRewriterIMP",
            summary: "FastClick's name; threads know each other's mappings here too",
        }],
        summary: "rewrites addresses and ports of TCP, and sequence numbers where FTPPortMapper asks for it",
        docs: "IPRewriter for TCP alone: see there for the INPUTSPECs, for what keeps mappings and for \
               threads. Besides, it shifts sequence numbers, acknowledgement numbers and selective \
               acknowledgements of connections in which FTPPortMapper has changed the length of a \
               segment. Other protocols are dropped, unless their input passes packets.",
        example: "FromIPSummaryDump(-, STOP true) -> CheckIPHeader \
                  -> rw :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> IPPrint(out) -> IPMirror \
                  -> [1]rw; rw[1] -> IPPrint(back) -> Discard",
        args: taken![
            Arg::keyword("TIMEOUT", Ty::Time, "TCP_TIMEOUT in short"),
            Arg::keyword(
                "TCP_TIMEOUT",
                Ty::Time,
                "timeout of TCP mappings with payload in both directions",
            )
            .or("86400"),
            Arg::keyword("TCP_NODATA_TIMEOUT", Ty::Time, "timeout of other TCP mappings").or("300"),
            Arg::keyword(
                "TCP_DONE_TIMEOUT",
                Ty::Time,
                "timeout of TCP mappings whose connection is at its end",
            )
            .or("240"),
            Arg::keyword("TCP_GUARANTEE", Ty::Time, "GUARANTEE of TCP mappings"),
        ],
        handlers: shown![
            handlers::table("table"),
            handlers::table("mappings"),
            handlers::lookup("lookup"),
        ],
        replicas: Replicas::Sharing(
            "the table of mappings where threads meet: each knows those that another has made",
        ),
        ..build::REWRITER
    },
    |args| build(args, Class::Tcp),
)
.with_cost_model::<Rewriter>()
.with_hot_swap::<Rewriter>()
.with_handlers::<Rewriter>();
