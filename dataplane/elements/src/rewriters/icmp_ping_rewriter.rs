//! ICMPPingRewriter: rewrites addresses and identifiers of ICMP echo requests and replies.

use thruway_element::{Arg, Changes, Entry, Spec, Topic, Ty};

use crate::rewriters::build::{self, build};
use crate::rewriters::class::Class;
use crate::rewriters::handlers;
use crate::rewriters::rewriter::Bad;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ICMPPingRewriter",
        topic: Topic::Rewriters,
        summary: "rewrites addresses and identifiers of ICMP echo requests and replies",
        docs: "As IPRewriter, for pings: the identifier of a request is the source port of patterns, which are \
               written SADDR DADDR SPORT (or SADDR SPORT DADDR DPORT, whose DPORT means nothing here). Requests make \
               mappings; replies are rewritten back. A reply that no mapping knows is dropped, and so \
               is what is no echo message, unless their input passes packets. Capacity and threads are \
               as in IPRewriter.",
        example: "ICMPPingSource(10.0.0.1, 198.51.100.1, LIMIT 3, INTERVAL 0.1, STOP true) \
                  -> rw :: ICMPPingRewriter(pattern 192.0.2.1 - 1-65535 0 1, drop) -> IPPrint(out) \
                  -> ICMPPingResponder -> [1]rw; rw[1] -> IPPrint(back) -> Discard",
        ports: "1-/1-",
        processing: "h/h",
        args: &[
            build::INPUTSPEC,
            Arg::keyword("TIMEOUT", Ty::Time, "timeout of mappings").or("300"),
            build::GUARANTEE,
            build::REAP_INTERVAL,
            build::REAP_TIME,
            build::MAPPING_CAPACITY,
            build::CAPACITY_ARG,
            build::DST_ANNO,
            build::REPLY_ANNO,
            build::SET_AGGREGATE,
        ],
        drops: Bad::DROPS,
        handlers: &[
            handlers::table("table"),
            handlers::table("mappings"),
            handlers::COMMON[0],
            handlers::COMMON[1],
            handlers::COMMON[2],
            handlers::COMMON[3],
            handlers::COMMON[4],
            handlers::COMMON[5],
            handlers::COMMON[6],
            handlers::COMMON[7],
        ],
        changes: Changes::Headers,
        cost: build::COST,
        ..Spec::DEFAULT
    },
    |args| build(args, Class::Ping),
);
