//! Socket: packets over TCP, UDP and Unix sockets.

use thruway_element::{Alias, Arg, ArgErrors, Args, Element, Entry, Replicas, Spec, Ty};

use super::transport::{self, Guard, Plan, Transport};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Transport>(
    Spec {
        name: "Socket",
        aliases: &[
            Alias { name: "FromSocket", summary: "the same; meant to have no input" },
            Alias { name: "ToSocket", summary: "the same, a client unless CLIENT is false" },
        ],
        summary: "sends packets over a socket, emits what comes from there",
        docs: "Packets that enter are sent to another host or process, what comes from there is \
               emitted; packets do not flow through. TYPE TCP and UDP take ADDR, PORT [, LOCAL_ADDR, \
               LOCAL_PORT]; UNIX and UNIX_DGRAM take FILENAME [, LOCAL_FILENAME].\n\
               A server is bound to the address; a client connects or sends to it. It is a client \
               with CLIENT, without CLIENT if it has no output or is given a local address. A TCP or \
               UNIX server has one connection at a time, others wait; a client connects at the \
               start, within ten seconds, and once. A UDP or UNIX_DGRAM server sends to the last \
               sender. A UDP client of ADDR 0.0.0.0 sends to the packet's destination \
               annotation.\n\
               Packets of a stream are as many bytes as come at once, SNAPLEN at most (without \
               SNAPLEN 1,856, which fit a small frame); longer datagrams are cut, with the \
               EXTRA_LENGTH annotation. Nothing ever waits for the socket: pushed packets that it \
               does not take are kept, 1,024 at most (64 of more than 1,856 bytes), and then \
               dropped (Click blocks); what waits for a connection that ends is dropped. Where \
               packets are pulled, no more are pulled than it takes.\n\
               ALLOW and DENY are IPRouteTables in which servers look up peers' addresses: peers \
               in ALLOW may connect, others may unless they are in DENY. PROPER and HEADROOM are \
               accepted: there are always 128 bytes. The file of a Unix socket goes at the end. \
               ToSocket and FromSocket are Click's older names.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> Socket(UDP, 127.0.0.1, 9999)",
        args: &[
            Arg::required("TYPE", Ty::Choice(&["TCP", "UDP", "UNIX", "UNIX_DGRAM"]), "its kind"),
            Arg::optional("ADDR", Ty::Any, "IP address, or file name"),
            Arg::optional("PORT", Ty::Any, "port, or local file name"),
            Arg::optional("LOCAL_ADDR", Ty::Ip, "of a client: its own address"),
            Arg::optional("LOCAL_PORT", Ty::Port, "of a client: its own port"),
            Arg::keyword("FILENAME", Ty::File, "file of a Unix socket"),
            Arg::keyword("LOCAL_FILENAME", Ty::File, "of a client: its own file"),
            Arg::keyword("CLIENT", Ty::Bool, "whether it connects, rather than listens"),
            transport::SNAPLEN,
            transport::TIMESTAMP,
            Arg::keyword("NODELAY", Ty::Bool, "of TCP: whether short packets go at once")
                .or("true"),
            Arg::keyword("SNDBUF", Ty::UInt, "the kernel's buffer for sending, bytes"),
            Arg::keyword("RCVBUF", Ty::UInt, "the kernel's buffer for receiving, bytes"),
            Arg::keyword("ALLOW", Ty::Element, "IPRouteTable of peers that a server accepts"),
            Arg::keyword("DENY", Ty::Element, "IPRouteTable of peers that may not"),
            Arg::keyword("VERBOSE", Ty::Bool, "whether connections are reported").or("false"),
            transport::HEADROOM,
            Arg::keyword("PROPER", Ty::Bool, "accepted").or("false"),
            transport::BURST,
        ],
        replicas: Replicas::OneThread(
            "its socket sends what comes in one order; a Queue in front does, too",
        ),
        ..transport::SOCKET
    },
    build,
)
.with_buffer::<Transport>()
.with_hot_swap::<Transport>();

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Transport::build(args, Plan::of(args)?, Guard::of(args)?)
}
