//! RoundRobinIPMapper: patterns of rewriters, one after the other.

use thruway_element::{
    Arg, ArgErrors, Args, Element, Entry, NOTHING_MORE, Replicas, Spec, Topic, Ty,
};

use crate::rewriters::mapper::{self, ROUND_ROBIN};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "RoundRobinIPMapper",
        topic: Topic::Rewriters,
        summary: "has rewriters make mappings by several patterns, one after the other",
        docs: "Write its name as an INPUTSPEC of an IPRewriter or the like: each new mapping there is made \
               by the next PATTERN FOUTPUT ROUTPUT, or by one behind it where that has no free port. \
               So new connections are spread over servers, for example. Rewriters that name the same \
               mapper share its turn. Patterns are checked where the mapper is used.",
        example: "servers :: RoundRobinIPMapper(- - 10.0.0.1 - 0 0, - - 10.0.0.2 - 0 0); \
                  FromIPSummaryDump(-, STOP true) -> CheckIPHeader -> IPRewriter(servers) -> IPPrint -> Discard",
        ports: "0/0",
        processing: "/",
        args: &[Arg::rest(
            "PATTERN",
            Ty::Rule("PATTERN FOUTPUT ROUTPUT"),
            "a pattern and its outputs",
        )],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.declaring(|element, args, names| mapper::declare(ROUND_ROBIN, element, args, names));

struct RoundRobinIpMapper;

impl Element for RoundRobinIpMapper {}

pub(super) fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    if args.rest().len() == 0 {
        return Err(ArgErrors::whole("no patterns given"));
    }
    Ok(Box::new(RoundRobinIpMapper))
}
