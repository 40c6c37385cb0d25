//! TCPIn, TCPOut: the payload of TCP connections.

use std::any::Any;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cost, CostModel, Cx, Demand, Direction, Drop, Element, Ended,
    Entry, Exception, Handler, HotSwap, Known, Layer, Load, Nanos, Operation, PerSession, Pressing,
    Purpose, Reason, Replicas, SessionFunction, Size, Spec, StreamMember, StreamPlan, Topic, Ty,
    Wants,
};
use thruway_elements_support::dialect::ignored;
use thruway_flow::SessionDef;
use thruway_packet::{Batch, Memory, Packet, PoolStats};
use thruway_stream::content::{Content, HasContent};
use thruway_stream::segment::protocol;
use thruway_stream::tcp::overlap::Overlap;
use thruway_stream::tcp::{Arrival, AtBound, DropReason, Mode, Out, Settings, Tcp, Urgent};
use thruway_stream::unseen::{self, unseen};
use thruway_wire::ip_protocol;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

mod exceptions;
mod follow;
mod handlers;
mod leave;
mod price;

use exceptions::{exceptions, one_of_each};
use follow::Follow;
use leave::TcpOut;
use price::entering;

/// Reasons of the engine, as those of the elements.
const DROPS: [Drop; DropReason::ALL.len() + 1 + unseen::REASONS.len()] = {
    let mut drops = [Drop::new("no-room", "there are as many connections as may be"); _];
    let mut at = 0;
    while at < DropReason::ALL.len() {
        drops[at] = Drop::new(DropReason::ALL[at].1, DropReason::ALL[at].2);
        at += 1;
    }
    let mut at = 0;
    while at < unseen::REASONS.len() {
        drops[UNSEEN.0 as usize + at] = Drop::new(unseen::REASONS[at].0, unseen::REASONS[at].1);
        at += 1;
    }
    drops
};
const NO_ROOM: Reason = Reason(DropReason::ALL.len() as u8);
/// The first of [`unseen::REASONS`].
const UNSEEN: Reason = Reason(NO_ROOM.0 + 1);
const APART: &str =
    "each follows the connections of its thread, both directions of which must come there";

/// See the spec.
pub static IN: Entry = Entry::new(
    Spec {
        name: "TCPIn",
        topic: Topic::Streams,
        summary: "begins the context of TCP: functions behind it see the payload of connections",
        docs: "Does to connections what the functions between here and TCPOut need, and no more \
               (`thruway check --explain` says what and for whom):\n\n\
               Nothing but a look: packets are shown as they come. In order: segments that come too \
               early wait for what is missing, whose sender is told. To guard: checksums (of IPv4 \
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
               places. Both ends are told that such a connection is gone. What was sent before the \
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
        handlers: &[
            Handler::sum("connections", "connections"),
            Handler::sum("opened", "connections that were opened"),
            Handler::sum("picked_up", "those of them that were not seen to open"),
            Handler::sum("closed", "connections that were reset here"),
            Handler::sum("passed", "connections that went on unseen at the bound"),
            Handler::sum("reordered", "segments that waited for what was missing"),
            Handler::sum("resent", "segments sent again from copies"),
            Handler::sum("acks", "acknowledgements, questions and resets made here"),
            Handler::sum("split", "segments split because they had grown"),
            Handler::sum("queued", "segments that waited for room at their receiver"),
            Handler::sum("kept", "packets kept now, to be acknowledged or sent"),
            Handler::sum(
                "delayed",
                "packets that wait for a hole or for room at their receiver now",
            ),
            Handler::sum("memory", "bytes of memory that these hold"),
            Handler::sum("pruned", "connections that gave way to others"),
            Handler::sum("pruned_waiting", "times that segments waiting for a hole gave way"),
            Handler::sum("stalled", "connections reset as nothing was acknowledged for STALL"),
            Handler::read("mode", "what is done: follow, order, guard or map"),
        ],
        wants: Wants {
            classes: &["tcp or tcp6"],
            whole: true,
            ..Wants::session::<SessionState>("connection")
        },
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
.with_hot_swap::<TcpIn>()
.with_handlers::<TcpIn>();

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

/// How long a connection is known after both ends have said that they finish, seconds: data before
/// that may have got lost, and times between retransmissions double (RFC 6298 section 5.5).
const CLOSED_S: u32 = 60;
/// Most bytes of BUFFER.
const BUFFER_MAX: u64 = 1 << 30;

/// How long nothing is sent again when a function has no room for it.
const REST_NS: i64 = 10_000_000;

/// Instead of a connection's number: functions only look at it.
const FOLLOWED: u32 = u32::MAX;

/// What the session remembers: the connection's number + 1.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy)]
#[repr(C)]
struct SessionState {
    conn: u32,
}

struct TcpIn {
    tcp: Tcp,
    settings: Settings,
    /// As many share the packet memory.
    threads: u32,
    /// PICK_UP, where it is given.
    pick_up: Option<bool>,
    /// Whatever functions need, this is done.
    least: Mode,
    /// What functions cannot be shown goes no further.
    refuses_unseen: bool,
    follow: Follow,
    out: Out,
    /// Functions of the context that may have no room for more.
    pressing: Pressing,
    /// When its timer comes.
    armed: Option<i64>,
    /// Not before this, as what it sends would find no room.
    rests_until: i64,
    problem: Option<String>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let overlap = args.get::<String>("OVERLAP")?;
    let buffer = args.get::<Size>("BUFFER")?.0;
    if !(4096..=BUFFER_MAX).contains(&buffer) {
        let message = format!("must be from 4096 to {BUFFER_MAX} bytes");
        return Err(args.error("BUFFER", message).into());
    }
    let pick_up = args.opt("PICK_UP")?;
    let stall = args.get::<Nanos>("STALL")?.0;
    if stall < 0 {
        return Err(args.error("STALL", "must not be negative").into());
    }
    let threads = args.env().threads.max(1) as u32;
    let settings = Settings {
        mode: Mode::Follow,
        connections_max: args.get("CONNECTIONS_MAX")?,
        buffer: buffer as u32,
        total: args.get::<Size>("TOTAL")?.0 / u64::from(threads),
        large_max: u32::MAX,
        stall,
        at_bound: [AtBound::Drop, AtBound::Pass, AtBound::Reset][args.choice("AT_BOUND")?],
        pick_up: pick_up.unwrap_or(true),
        urgent: [Urgent::Clear, Urgent::Pass, Urgent::Drop][args.choice("URGENT")?],
        overlap: overlap
            .parse::<Overlap>()
            .map_err(|why| args.error("OVERLAP", format!("'{overlap}': {why}")))?,
        verify: args.get("CHECKSUM")?,
    };
    let least = if args.get("GUARD")? { Mode::Guard } else { Mode::Follow };
    let (out, tcp) = (Out::default(), Tcp::new(settings));
    let follow = Follow { pick_up: settings.pick_up, ..Follow::default() };
    Ok(Box::new(TcpIn {
        tcp,
        settings,
        threads,
        pick_up,
        least,
        refuses_unseen: args.choice("UNSEEN")? == 0,
        follow,
        out,
        pressing: Pressing::default(),
        armed: None,
        rests_until: 0,
        problem: None,
    }))
}

impl Element for TcpIn {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.leave_memory();
        self.arm(cx);
        self.problem.take().map_or(Ok(()), Err)
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        // PERF: in place, `bench stream --case nat-tcp` went from 46 to FOLLOW_NS ns above `nat`.
        if self.settings.mode == Mode::Follow && self.tcp.is_empty() {
            cx.per_session(&mut self.follow, batch);
            cx.pass_on(port, batch);
            return;
        }
        let now = cx.now();
        let is_pressed = self.pressing.is_felt(cx);
        let (tcp, out) = (&mut self.tcp, &mut self.out);
        let refuses_unseen = self.refuses_unseen && self.settings.mode > Mode::Follow;
        let (mut refused, mut hidden) = (0, [0; unseen::REASONS.len()]);
        cx.take_sessions::<SessionState>(batch, |packet, known| {
            let known = known.filter(|known| !known.related && is_tcp(&packet));
            match known {
                _ if is_pressed => out.drop(DropReason::Full, packet),
                None => match refuses_unseen.then(|| unseen(&packet, ip_protocol::TCP)).flatten() {
                    Some(why) => hidden[why as usize] += 1,
                    None => pass(out, port, packet),
                },
                Some(known) => refused += usize::from(!take(tcp, out, (port, now), packet, known)),
            }
        });
        if refused > 0 {
            cx.count_drops(NO_ROOM, refused);
        }
        for (at, count) in hidden.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            cx.count_drops(Reason(UNSEEN.0 + at as u8), count);
        }
        send(cx, &mut self.out, batch);
        self.arm(cx);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.armed = None;
        if self.pressing.is_felt(cx) {
            self.rests_until = cx.now().saturating_add(REST_NS);
            return self.arm(cx);
        }
        self.tcp.tick(cx.now(), &mut self.out);
        // Not in a batch of its own: its memory would take the place of one that has grown.
        self.out.packets.drain(..).for_each(|(port, packet)| cx.emit(port, packet));
        count_drops(cx, &mut self.out);
        self.arm(cx);
    }
}

impl HotSwap for TcpIn {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(std::mem::replace(&mut self.tcp, Tcp::new(self.settings))))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(tcp) = state.downcast::<Tcp>() {
            self.tcp = *tcp;
            self.tcp.set_settings(self.settings);
        }
    }
}

impl CostModel for TcpIn {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let (mode, verifies) = (self.settings.mode, self.settings.verify);
        Some(entering(mode, verifies, load))
    }
}

impl SessionFunction for TcpIn {
    /// (Where it has to do with it, until what is left of a closed connection was sent again.)
    fn demand(&self) -> Option<Demand> {
        let session = SessionDef::parse("connection").ok()?;
        let closed_s = (self.settings.mode > Mode::Follow).then_some(CLOSED_S);
        Some(Demand { closed_s, ..IN.spec.wants.demand_of(session) })
    }

    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        let Ok(state) = SessionState::read_from_bytes(state) else { return };
        match state.conn {
            0 | FOLLOWED => self.follow.close(&state, why),
            conn => {
                self.tcp.close(conn - 1, &mut self.out);
                count_drops(cx, &mut self.out);
            }
        }
    }
}

impl StreamMember for TcpIn {
    fn exceptions(&self) -> Vec<Exception> {
        match self.settings.mode {
            Mode::Follow => Vec::new(),
            mode => exceptions(&self.settings, mode >= Mode::Guard, self.refuses_unseen),
        }
    }

    fn take_stream(&mut self, plan: &StreamPlan) {
        let mode = Mode::of(plan.needs).max(self.least);
        self.settings.mode = mode;
        self.settings.pick_up = self.pick_up.unwrap_or(mode < Mode::Map);
        self.tcp.set_settings(self.settings);
        self.pressing = Pressing::before(&plan.leaves);
        self.problem = one_of_each(plan);
    }
}

/// Lets a packet pass by.
#[inline]
fn pass(out: &mut Out, port: usize, mut packet: Packet) {
    packet.set_content_mark(Content::NONE);
    out.packets.push((port, packet));
}

/// Hands a packet to the engine; false when there is no room for its connection.
#[inline]
fn take(
    tcp: &mut Tcp,
    out: &mut Out,
    (port, now): (usize, i64),
    packet: Packet,
    known: Known<'_, SessionState>,
) -> bool {
    if [0, FOLLOWED].contains(&known.state.conn) {
        let Some(conn) = tcp.open() else { return false };
        known.state.conn = conn + 1;
    }
    let direction = usize::from(known.direction == Direction::Reply);
    let at = Arrival { conn: known.state.conn - 1, direction, port, now };
    tcp.arrive(at, packet, out);
    true
}

/// Whether TCP follows the IP header, or its extensions.
#[inline]
fn is_tcp(packet: &Packet) -> bool {
    match protocol(packet) {
        Some(ip_protocol::TCP) => true,
        None | Some(ip_protocol::UDP) => false,
        // Behind extension headers only the classifier has looked; what is no TCP has no ports
        // that it could have found.
        Some(_) => packet.network().first().is_some_and(|first| first >> 4 == 6),
    }
}

/// Sends on what the engine gave; packets for output 0 are left in the batch.
fn send(cx: &mut Cx<'_>, out: &mut Out, batch: &mut Batch) {
    for (port, packet) in out.packets.drain(..) {
        match port {
            0 => batch.push(packet),
            _ => cx.emit(port, packet),
        }
    }
    count_drops(cx, out);
}

fn count_drops(cx: &mut Cx<'_>, out: &mut Out) {
    cx.count_made(std::mem::take(&mut out.made) as usize);
    for (at, n) in out.drops.iter_mut().enumerate().filter(|(_, n)| **n > 0) {
        cx.count_drops(Reason(at as u8), std::mem::take(n) as usize);
    }
}

impl TcpIn {
    /// Keeps no more than half of the packet memory, so that packets can come at all.
    fn leave_memory(&mut self) {
        let half = |pool: PoolStats| pool.capacity / 2 / self.threads;
        let (small, large) = (Memory::get().small().stats(), Memory::get().large().stats());
        let most = u64::from(half(small)) * small.frame_len as u64;
        self.settings.total = self.settings.total.min(most);
        self.settings.large_max = half(large) / 4 * 3;
        self.tcp.set_settings(self.settings);
    }

    /// Sees to it that the engine is called in time.
    fn arm(&mut self, cx: &mut Cx<'_>) {
        let Some(due) = self.tcp.due().map(|due| due.max(self.rests_until)) else { return };
        if self.armed.is_none_or(|at| due < at) {
            self.armed = Some(due);
            cx.set_timer(0, due);
        }
    }
}
