//! IPRewriter: rewrites addresses and ports of TCP and UDP, by mappings that it makes.

use thruway_element::{Alias, Arg, Entry, Spec, Ty};

use crate::rewriters::build::{self, build, shown, taken};
use crate::rewriters::class::Class;
use crate::rewriters::handlers;
use crate::rewriters::rewriter::Rewriter;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IPRewriter",
        aliases: &[Alias {
            name: "IPRewriterIMP",
            summary: "FastClick's name; threads know each other's mappings here too",
        }],
        summary: "rewrites addresses and ports of TCP and UDP, by mappings that it makes",
        docs: "Has a table of mappings: a flow (source address and port, destination address and \
               port, protocol) becomes another one and leaves by an output; packets of its replies \
               are rewritten back and leave by another output. Checksums are changed, not computed \
               anew. A packet that no mapping knows is handled as the INPUTSPEC of its input \
               says:\n\n\
               drop (or discard) drops it. pass OUTPUT (or nochange, passthrough) sends it on as \
               it is. keep FOUTPUT ROUTPUT makes a mapping that changes nothing. pattern SADDR \
               SPORT DADDR DPORT FOUTPUT ROUTPUT makes one by the pattern, in which '-' keeps a \
               field. SPORT may be a range L-H: the packet's own port is taken if it is in the \
               range and free, else a free one, beginning at random; with '#' behind the range \
               ports follow each other, with '?' they are always random. pattern NAME FOUTPUT \
               ROUTPUT takes a pattern of IPRewriterPatterns. The name of a RoundRobinIPMapper or \
               SourceIPHashMapper lets that one choose a pattern.\n\n\
               Packets need a marked IP header (CheckIPHeader). Fragments other than the first, \
               other protocols and headers that are cut short are dropped, unless their input \
               passes packets. A reply that belongs to two mappings belongs to the later one, and \
               the other one ends.\n\n\
               A mapping is safe from others for GUARANTEE seconds (UDP_GUARANTEE for UDP) from \
               its last packet. When there are MAPPING_CAPACITY mappings, a new one evicts the \
               mapping that expires first among those that are not safe. If all are safe, it \
               evicts an unconfirmed one: TCP with an incomplete handshake or at its end, and UDP \
               without replies. If a guarantee is given, those are safe, too. Otherwise the packet \
               is dropped. Up to 64 mappings are inspected for it. If a range has no free value, \
               or 256 in turn are in use, a new mapping evicts one of the same mappings, one of \
               those that were idle longest. Expired mappings are removed every REAP_INTERVAL, and \
               work until seen in both directions, TCP_NODATA_TIMEOUT where it has not, and \
               TCP_DONE_TIMEOUT after FINs of both sides or a RST that their receivers would take \
               (RFC 5961); others after UDP_TIMEOUT, or UDP_STREAMING_TIMEOUT once they had three \
               packets and one of them was a reply.\n\n\
               Threads that run it know each other's mappings: whichever sees a reply finds what \
               another one made, and a mapping is kept as long as any of them sees packets. Each \
               has MAPPING_CAPACITY mappings, those made elsewhere included, and counts and lists \
               its own; mappings of others never end for a new one's sake. A capacity is shared \
               with other rewriters within one thread only. Where a range is larger, 1,024 of its \
               values are tried for a packet, and the next packet's search goes on behind them. \
               Unlike Click's, a table has a bound where none is given. Payloads are not looked \
               at; FTPPortMapper is for FTP. At a hot swap mappings are kept if the INPUTSPECs are \
               the same, one thread runs it and the capacity is not shared. Where FlowClassifier \
               is in use, NAT does the same with the sessions that all functions share.",
        example: "FromIPSummaryDump(-, STOP true) -> CheckIPHeader \
                  -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> IPPrint(out) -> IPMirror \
                  -> [1]rw; rw[1] -> IPPrint(back) -> Discard",
        args: taken![
            build::TCP_ARGS[0],
            build::TCP_ARGS[1],
            build::TCP_ARGS[2],
            build::TCP_ARGS[3],
            build::TCP_ARGS[4],
            Arg::keyword("UDP_TIMEOUT", Ty::Time, "timeout of UDP mappings").or("300"),
            Arg::keyword(
                "UDP_STREAMING_TIMEOUT",
                Ty::Time,
                "timeout of UDP mappings with three packets and a reply; UDP_TIMEOUT if not given",
            ),
            Arg::keyword("UDP_GUARANTEE", Ty::Time, "GUARANTEE of UDP mappings").or("5"),
        ],
        handlers: shown![
            handlers::table("tcp_table"),
            handlers::table("udp_table"),
            handlers::table("tcp_mappings"),
            handlers::table("udp_mappings"),
            handlers::lookup("tcp_lookup"),
            handlers::lookup("udp_lookup"),
        ],
        ..build::REWRITER
    },
    |args| build(args, Class::Ip),
)
.with_cost_model::<Rewriter>()
.with_hot_swap::<Rewriter>()
.with_handlers::<Rewriter>();
