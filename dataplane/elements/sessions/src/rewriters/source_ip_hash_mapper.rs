//! SourceIPHashMapper: patterns of rewriters, by the source address.

use thruway_element::{
    Arg, ArgErrors, Args, Element, Entry, NOTHING_MORE, Replicas, Spec, Topic, Ty,
};

use crate::rewriters::mapper::{self, SOURCE_HASH};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "SourceIPHashMapper",
        topic: Topic::Rewriters,
        summary: "has rewriters make mappings by one of several patterns, chosen by the source address",
        docs: "Write its name as an INPUTSPEC of an IPRewriter or the like: a new mapping is made there by \
               the pattern that the packet's source address leads to, by consistent hashing: each \
               pattern has NNODES points on a circle, which follow from its server ID (the last number) \
               and SEED. So a client keeps its server, and few clients get another one when patterns \
               are added or taken out. Which client gets which server differs from Click. Patterns are \
               checked where the mapper is used.",
        example: "servers :: SourceIPHashMapper(100 7, - - 10.0.0.1 - 0 0 1, - - 10.0.0.2 - 0 0 2); \
                  FromIPSummaryDump(-, STOP true) -> CheckIPHeader -> IPRewriter(servers) -> IPPrint -> Discard",
        ports: "0/0",
        processing: "/",
        args: &[
            Arg::required(
                "NNODES SEED",
                Ty::Rule("NNODES SEED"),
                "points of a server, and a number",
            ),
            Arg::rest(
                "PATTERN",
                Ty::Rule("PATTERN FOUTPUT ROUTPUT ID"),
                "a pattern, its outputs and the number of the server",
            ),
        ],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.declaring(|element, args, names| mapper::declare(SOURCE_HASH, element, args, names));

struct SourceIpHashMapper;

impl Element for SourceIpHashMapper {}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    if args.rest().len() == 0 {
        return Err(ArgErrors::whole("no patterns given"));
    }
    Ok(Box::new(SourceIpHashMapper))
}
