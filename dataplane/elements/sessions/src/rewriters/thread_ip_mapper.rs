//! ThreadIPMapper: patterns of rewriters, one for each thread.

use thruway_element::{Entry, Spec};

use crate::rewriters::mapper::{self, THREAD};
use crate::rewriters::round_robin_ip_mapper::{self, build};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ThreadIPMapper",
        summary: "has rewriters make mappings by another pattern in each thread",
        docs: "Write its name as an INPUTSPEC of an IPRewriter or the like: the first of the \
               threads that reach the rewriter makes new mappings there by the first PATTERN \
               FOUTPUT ROUTPUT, the second by the second, and so on; where there are more threads \
               than patterns, threads share some. So a port identifies the thread that made its \
               mapping. As all threads know all mappings, a reply may come to any.",
        example: "ports :: ThreadIPMapper(1.0.0.1 1024-29999 - - 0 0, 1.0.0.1 30000-65535 - - 0 0); \
                  FromIPSummaryDump(-, STOP true) -> CheckIPHeader -> UDPRewriter(ports) -> IPPrint -> Discard",
        ..round_robin_ip_mapper::ENTRY.spec
    },
    build,
)
.declaring(|element, args, names| mapper::declare(THREAD, element, args, names));
