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
        docs: "Provides what the functions between here and TCPOut need of connections, and no \
               more (`thruway check --explain` lists it, and the functions that need it):\n\n\
               Inspection only: functions see packets as they come. In order: segments that come \
               too early wait for the missing ones, and their sender gets an acknowledgement. To \
               guard: checksums (of IPv4 headers, too) are verified, copies of forwarded data are \
               kept until it is acknowledged, and retransmissions are served from them, so the \
               receiver gets the bytes that functions saw, whatever is sent twice or late; RST and \
               SYN count only if the receiver takes them for certain (RFC 5961). To hold back or \
               change lengths: own sequence numbers for forwarded data, mapped back in \
               acknowledgements (SACK too), windows by the receiver's room, segments split where \
               they grow beyond what it takes, and sent again by our own timer where their sender \
               knows them to be acknowledged. A packet that stands for several (FromDevice, LARGE) \
               leaves in one piece as it came, while a quarter of the large frames that may be \
               kept is free; else it is cut here.\n\n\
               Both directions of a connection must come through the same TCPIn (by whichever \
               threads: one serves both); what enters by an input leaves by the output of the same \
               number. Segments that break the rules of TCP are dropped for a named reason. URGENT \
               selects the treatment of urgent data where functions guard: clear (it is made part \
               of the stream), pass, drop. OVERLAP selects the bytes that count where waiting \
               segments overlap: first, last, or as in an operating system: bsd, linux, old-linux, \
               solaris, hpux10, hpux11, irix, macos, windows, windows2003, vista. PICK_UP selects \
               whether connections are accepted without their handshake. Where lengths change they \
               are not, unless it is true: before a restart their numbers may have been changed \
               here, and bytes would arrive at wrong places. Both ends learn that such a \
               connection is gone. Data sent before the first packet seen of such a connection \
               passes uninspected: to be strict, set PICK_UP false. BUFFER bytes of packet memory \
               may be kept of each direction (for segments that wait for missing ones, and for \
               unacknowledged data, each), TOTAL of all (at most half of the packet memory; whole \
               frames count, however short the packets); AT_BOUND selects what then happens to the \
               connection: drop (its sender slows down), pass (unseen; as drop where lengths \
               change), reset.\n\n\
               Of TOTAL each connection may have as much as is left for others, and its share in \
               any case: an equal part. If one needs more, or nothing is left, connections with \
               bytes kept for 3 seconds are evicted, and if that one has less than its share, also \
               connections with more than theirs for 250 ms: they are reset (AT_BOUND pass: they \
               go on unseen), and segments that wait for a hole are dropped, to be sent again. So \
               a crowd of receivers that acknowledge nothing, or too little, starves no other \
               connection. Even if no other connection needs the memory, a connection with a \
               receiver that acknowledges nothing for STALL (detected after at most twice that \
               time) is reset, and segments that wait for a hole as long are dropped.\n\n\
               While half of the ring of an isolated function in the context is in use, segments \
               are dropped here, as if they had been lost on the path: admitted segments are never \
               dropped for want of room.\n\n\
               With GUARD true connections are guarded without any function: packets that no \
               receiver should take (wrong checksums and numbers, forged RST, data before the \
               handshake, overlaps that differ) are dropped; in front of a StatefulFirewall or any \
               other element that relies on TCP's flags.\n\n\
               In a chain with Replicate, a backup host goes on with connections or resets them \
               (STREAMS there; handlers continued and unreplicated). A sender whose connection can go \
               on is acknowledged its bytes only when the backup was sent what it takes to make them \
               again.\n\n\
               Packets that are not TCP, and ICMP errors, pass by unseen. So do, where no function \
               looks at payload, packets that functions cannot be shown: fragments that may be of \
               TCP (put an IPReassembler in front), segments without a session, and IP packets \
               with an undetermined protocol (cut short, contradictory, or more than 8 extension \
               headers). Where a function looks, these are dropped, unless UNSEEN is pass.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier ~> TCPIn \
                  -> TCPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[
            Arg::keyword("PICK_UP", Ty::Bool, "take connections that were not seen to open"),
            Arg::keyword("GUARD", Ty::Bool, "guard connections even if no function needs it")
                .or("false"),
            Arg::keyword("OVERLAP", Ty::Str, "which bytes count where segments overlap")
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
            Arg::keyword(
                "UNSEEN",
                Ty::Choice(&["drop", "pass"]),
                "treatment of packets that functions cannot inspect",
            )
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
.with_connection_transfer::<TcpIn>()
.with_cost_model::<TcpIn>()
.with_hot_swap::<TcpIn>();

/// See the spec.
pub static OUT: Entry = Entry::new(
    Spec {
        name: "TCPOut",
        topic: Topic::Streams,
        summary: "ends the context of TCP: corrects numbers, lengths and checksums",
        docs: "What functions changed since TCPIn is made up for here: see there. A connection \
               that a function closed gets a RST at both ends. Bytes must not get lost between \
               TCPIn and here: where functions guard, a connection of which a packet is missing is \
               reset.",
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
