//! IPAddrRewriter: gives hosts other addresses, one for one.

use thruway_element::{Arg, Entry, Spec, Ty};

use crate::rewriters::build::{self, build, taken};
use crate::rewriters::class::Class;
use crate::rewriters::rewriter::Rewriter;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IPAddrRewriter",
        summary: "gives hosts other addresses, one for one",
        docs: "Basic translation of addresses, for any protocol: the source address of a packet is \
               looked up, then its destination address. A known source becomes another address; a \
               destination that is what a source has become is set back, and the packet leaves by \
               ROUTPUT. Other the INPUTSPEC of their input selects their treatment (see \
               IPRewriter); a pattern is written SADDR - FOUTPUT ROUTPUT, and SADDR may be a range \
               L-H or a prefix; its first and last address are not assigned. Addresses are chosen \
               at random, or with '#' one after the other. Checksums of TCP, UDP and DCCP are kept \
               right; fragments are rewritten like other packets. Timeouts, capacity and threads \
               are as in IPRewriter. TIMEOUT follows Click's implementation; Click's manual says 5 \
               minutes.",
        example: "FromIPSummaryDump(-, STOP true) -> CheckIPHeader \
                  -> rw :: IPAddrRewriter(pattern 192.0.2.0/24 - 0 1, drop) -> IPPrint(out) -> IPMirror \
                  -> [1]rw; rw[1] -> IPPrint(back) -> Discard",
        args: taken![Arg::keyword("TIMEOUT", Ty::Time, "timeout of mappings").or("2h"),],
        ..build::REWRITER
    },
    |args| build(args, Class::Address),
)
.with_cost_model::<Rewriter>()
.with_hot_swap::<Rewriter>()
.with_handlers::<Rewriter>();
