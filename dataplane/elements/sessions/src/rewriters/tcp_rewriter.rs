//! TCPRewriter: rewrites addresses and ports of TCP, and sequence numbers where FTPPortMapper asks
//! for it.

use thruway_element::{Alias, Entry, Spec};

use crate::rewriters::build::{self, build, taken};
use crate::rewriters::class::Class;
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
            build::TCP_ARGS[0],
            build::TCP_ARGS[1],
            build::TCP_ARGS[2],
            build::TCP_ARGS[3],
            build::TCP_ARGS[4],
        ],
        handlers: build::ONE_TABLE,
        ..build::REWRITER
    },
    |args| build(args, Class::Tcp),
)
.with_cost_model::<Rewriter>()
.with_hot_swap::<Rewriter>()
.with_handlers::<Rewriter>();
