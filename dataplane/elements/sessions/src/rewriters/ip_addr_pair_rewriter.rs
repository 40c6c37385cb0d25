//! IPAddrPairRewriter: rewrites both addresses, by mappings for each pair of hosts.

use thruway_element::{Arg, Entry, Spec, Ty};

use crate::rewriters::build::{self, build, taken};
use crate::rewriters::class::Class;
use crate::rewriters::rewriter::Rewriter;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IPAddrPairRewriter",
        summary: "rewrites both addresses, by mappings for each pair of hosts",
        docs: "Between IPAddrRewriter and IPRewriter: a mapping is made for each pair of source \
               and destination address, so one address can stand for several hosts that talk to \
               different ones. Patterns are written SADDR DADDR FOUTPUT ROUTPUT, SADDR as in \
               IPAddrRewriter; the other INPUTSPECs are as in IPRewriter, and so are capacity and \
               threads. TIMEOUT follows Click's implementation; Click's manual says 5 minutes.",
        example: "FromIPSummaryDump(-, STOP true) -> CheckIPHeader \
                  -> rw :: IPAddrPairRewriter(pattern 192.0.2.0/24 - 0 1, drop) -> IPPrint(out) -> IPMirror \
                  -> [1]rw; rw[1] -> IPPrint(back) -> Discard",
        args: taken![Arg::keyword("TIMEOUT", Ty::Time, "timeout of mappings").or("2h"),],
        ..build::REWRITER
    },
    |args| build(args, Class::Pair),
)
.with_cost_model::<Rewriter>()
.with_hot_swap::<Rewriter>()
.with_handlers::<Rewriter>();
