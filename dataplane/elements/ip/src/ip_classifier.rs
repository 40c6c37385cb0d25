//! IPClassifier: IP packets sorted by what their headers say. It is IPFilter with other arguments.

use thruway_element::{Arg, ArgErrors, Args, Element, Entry, Handler, Spec, Ty};

use super::ip_filter::{self, IpFilter, Kind};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IPClassifier",
        summary: "sorts IP packets by contents",
        docs: "Each argument is a PATTERN; a packet leaves by the output of the first that matches, \
               and is dropped when none does. There is one output for each pattern. Handler \
               patternI reads and writes the pattern of output I.\n\n\
               A PATTERN is built of primitives with and, or, not (&&, ||, !), parentheses and \
               ? : .\n\n\
               Hosts and networks: [src|dst|src or dst|src and dst] [host] ADDR; [net] ADDR/LEN or \
               ADDR mask MASK; ether host ADDR.\n\n\
               Ports: [src|dst] [tcp|udp] port PORT. Protocols: ip proto NAME or NUMBER, or just \
               tcp, udp, icmp and so on.\n\n\
               Fields: ip vers, ip hl, ip len, ip id, ip tos, ip dscp, ip ttl, ip ect, ip ce, ip \
               frag, ip unfrag, tcp opt FLAG, tcp win, icmp type; ip[POS:LEN] and transp[POS:LEN].\
               \n\n\
               Numbers may be compared (==, !=, <, >, <=, >=) and masked (& MASK). '-', any and all \
               as a whole pattern, and true and false anywhere. What can be guessed may be left \
               out: 'dst port 80 or 443', 'www', '10.0.0.0/8'.\n\n\
               Ports, TCP flags and ICMP types are those of first fragments only; a test of bytes \
               that the packet does not have fails. The packet's IP header must be marked \
               (CheckIPHeader, MarkIPHeader). All patterns are compiled into one structure, so a \
               thousand of them stay fast; handler program shows it, in a form of its own.",
        example: "FastUDPFlows(0, 10, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 2.0.0.2, 4, 2, \
                  STOP true) -> Unqueue -> Strip(14) -> CheckIPHeader -> \
                  c :: IPClassifier(tcp, udp); c[0] -> Discard; c[1] -> Discard",
        args: &[Arg::rest("PATTERN", Ty::Rule("PATTERN"), "what an output gets")],
        handlers: &[
            Handler::read("program", "the compiled patterns"),
            Handler::both("config", "the patterns; those written take the place of all"),
        ],
        ..ip_filter::ENTRY.spec
    },
    build,
)
.with_cost_model::<IpFilter>()
.with_handlers::<IpFilter>();

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    ip_filter::build(args, Kind::Classifier)
}
