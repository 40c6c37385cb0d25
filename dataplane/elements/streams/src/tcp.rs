//! TCPIn, TCPOut: the payload of TCP connections.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Element, Entry, Layer, Operation, Purpose, Replicas, Spec,
    Topic, Ty,
};
use thruway_elements_support::dialect::ignored;

mod drops;
mod enter;
mod exceptions;
mod follow;
mod leave;
mod price;
mod session_state;

use drops::DROPS;
use enter::{TcpIn, build};
use leave::TcpOut;
use session_state::WANTS;

const APART: &str =
    "each follows the connections of its thread, both directions of which must come there";

/// See the spec.
pub static IN: Entry = Entry::built::<TcpIn>(
    Spec {
        name: "TCPIn",
        topic: Topic::Streams,
        summary: "begins the context of TCP: functions behind it see the payload of connections",
        docs: "Does to connections what the functions between here and TCPOut need, and no more \
               (`thruway check --explain` says what and for whom):\n\n\
               Nothing but a look: packets are shown as they come. In order: segments that come too \
               early wait for what is missing, whose sender is informed. To guard: checksums (of IPv4 \
               headers, too) are verified, copies of what was sent on are kept until it is \
               acknowledged, and what the sender sends again is answered from them, so the \
               receiver gets what functions saw, whatever is sent twice or late; RST and SYN count only if the receiver takes them for \
               certain (RFC 5961). To hold back or change lengths: numbers of its own for what \
               leaves, mapped back in acknowledgements (SACK too), windows by the room that the \
               receiver has, segments split where they grow beyond what it takes, and sent again by \
               our own timer where their sender knows them to be acknowledged. A packet that stands for \
               several (FromDevice, LARGE) leaves in one piece as it came, while a quarter of the \
               large frames that may be kept is free; else it is cut here.\n\n\
               Both directions of a connection must come through the same TCPIn (by \
               whichever threads: one serves both); what enters by an input leaves by the output of the same number. Segments that break \
               the rules of TCP are dropped for a named reason. URGENT says what becomes of urgent \
               data where functions guard: clear (it is made part of the stream), pass, drop. \
               OVERLAP says whose bytes count where segments that wait overlap: first, last, or as \
               an operating system does it: bsd, linux, old-linux, solaris, hpux10, hpux11, irix, \
               macos, windows, windows2003, vista. PICK_UP says whether connections are taken that \
               were not seen to open. Where lengths change they are not, unless it is true: before a \
               restart their numbers may have been changed here, and bytes would arrive at wrong \
               places. Both ends learn that such a connection is gone. What was sent before the \
               first packet of such a connection that was seen passes uninspected: who wants to be \
               strict writes PICK_UP false. BUFFER bytes of packet memory may be kept of each \
               direction (that which waits for what is missing and that which waits to be \
               acknowledged, each), TOTAL of all (at most half of the packet memory; whole frames \
               count, however short the packets); AT_BOUND says what then happens to the connection: \
               drop (its sender slows down), pass (unseen; as drop where lengths change), reset.\n\n\
               Of TOTAL each connection may have as much as is left for others, and its share in any \
               case: an equal part. Where one needs more, or nothing is left, those give way of which \
               something has been kept for 3 seconds, and if it has less than its share, those that \
               have more than theirs for 250 ms: they are reset (AT_BOUND pass: they go on unseen), and \
               segments that wait for a hole are dropped, to be sent again. So a crowd of receivers \
               that acknowledge nothing, or too little, starves nobody else. Whoever needs the memory \
               or not, a connection whose receiver acknowledges nothing for STALL (found after twice \
               that time at most) is reset, and what waits for a hole as long is dropped.\n\n\
               While half of the ring of an isolated function in the context is in use, \
               segments are dropped here, as if they had been lost on the way: what was let in is \
               never dropped for want of room.\n\n\
               With GUARD true connections are guarded without any function: what no receiver \
               should take (wrong checksums and numbers, forged RST, data before the handshake, \
               overlaps that differ) goes no further; in front of a StatefulFirewall or whatever \
               else goes by TCP's flags.\n\n\
               Packets that are not TCP, and ICMP errors, pass by unseen. So do, where no function \
               looks at payload, packets that functions cannot be shown: fragments that may be of \
               TCP (put an IPReassembler in front), segments without a session, and IP packets \
               whose headers do not say what they carry (cut short, contradictory, or more than 8 \
               extension headers). Where a function looks, these are dropped, unless UNSEEN is \
               pass.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier ~> TCPIn \
                  -> TCPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[
            Arg::keyword("PICK_UP", Ty::Bool, "take connections that were not seen to open"),
            Arg::keyword("GUARD", Ty::Bool, "guard connections even if no function needs it")
                .or("false"),
            Arg::keyword("OVERLAP", Ty::Str, "whose bytes count where segments overlap")
                .or("first"),
            Arg::keyword("URGENT", Ty::Choice(&["clear", "pass", "drop"]), "urgent data")
                .or("clear"),
            Arg::keyword("CHECKSUM", Ty::Bool, "verify checksums where functions guard").or("true"),
            Arg::keyword("BUFFER", Ty::Size, "bytes kept of each direction of a connection")
                .or("8M"),
            Arg::keyword("TOTAL", Ty::Size, "bytes kept of all connections, in all threads")
                .or("64M"),
            Arg::keyword("STALL", Ty::Time, "longest time without acknowledgements; 0: for ever")
                .or("5min"),
            Arg::keyword("AT_BOUND", Ty::Choice(&["drop", "pass", "reset"]), "beyond these")
                .or("drop"),
            Arg::keyword("UNSEEN", Ty::Choice(&["drop", "pass"]), "what functions cannot be shown")
                .or("drop"),
            Arg::keyword("CONNECTIONS_MAX", Ty::UInt, "most connections, in one thread")
                .or("1048576"),
            ignored("FLOWDIRECTION"),
            ignored("OUTNAME"),
            ignored("REORDER"),
            ignored("RETURNNAME"),
            ignored("VERBOSE"),
        ],
        drops: &DROPS,
        wants: WANTS,
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once(), Operation::HeaderParse.once()],
        purpose: Purpose::BeginContext(Layer::Tcp),
        replicas: Replicas::Apart(APART),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<TcpIn>()
.with_session_function::<TcpIn>()
.with_cost_model::<TcpIn>()
.with_hot_swap::<TcpIn>();

/// See the spec.
pub static OUT: Entry = Entry::new(
    Spec {
        name: "TCPOut",
        topic: Topic::Streams,
        summary: "ends the context of TCP: numbers, lengths and checksums are put right",
        docs: "What functions changed since TCPIn is made up for here: see there. A connection that \
               a function closed gets a RST at both ends. Bytes must not get lost between TCPIn and \
               here: where functions guard, a connection of which a packet is missing is reset.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier ~> TCPIn \
                  -> TCPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[ignored("CHECKSUM"), ignored("READONLY"), ignored("SEQUENCE")],
        drops: &DROPS,
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once()],
        purpose: Purpose::EndContext(Layer::Tcp),
        replicas: Replicas::Apart(APART),
        large_packets: true,
        ..Spec::DEFAULT
    },
    |_: &Args<'_>| -> Result<Box<dyn Element>, ArgErrors> { Ok(Box::<TcpOut>::default()) },
)
.with_stream_member::<TcpOut>()
.with_buffer::<TcpOut>();
