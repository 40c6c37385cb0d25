//! ICMPPingRewriter: rewrites addresses and identifiers of ICMP echo requests and replies.

use thruway_element::{Arg, Entry, Spec, Ty};

use crate::rewriters::build::{self, build, taken};
use crate::rewriters::class::Class;
use crate::rewriters::rewriter::Rewriter;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ICMPPingRewriter",
        summary: "rewrites addresses and identifiers of ICMP echo requests and replies",
        docs: "As IPRewriter, for pings: the identifier of a request is the source port of \
               patterns, which are written SADDR DADDR SPORT (or SADDR SPORT DADDR DPORT, with \
               DPORT ignored). Requests make mappings; replies are rewritten back. A reply without \
               a mapping is dropped, and so are messages other than echo, unless their input \
               passes packets. Capacity and threads are as in IPRewriter.",
        example: "ICMPPingSource(10.0.0.1, 198.51.100.1, LIMIT 3, INTERVAL 0.1, STOP true) \
                  -> rw :: ICMPPingRewriter(pattern 192.0.2.1 - 1-65535 0 1, drop) -> IPPrint(out) \
                  -> ICMPPingResponder -> [1]rw; rw[1] -> IPPrint(back) -> Discard",
        args: taken![Arg::keyword("TIMEOUT", Ty::Time, "timeout of mappings").or("300"),],
        ..build::REWRITER
    },
    |args| build(args, Class::Ping),
)
.with_cost_model::<Rewriter>()
.with_hot_swap::<Rewriter>()
.with_handlers::<Rewriter>();
