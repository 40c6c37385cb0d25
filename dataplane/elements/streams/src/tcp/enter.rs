//! TCPIn, which shows functions the payload of connections.

use std::any::Any;

use thruway_element::{
    ArgErrors, Args, ConnectionTransfer, Cost, CostModel, Cx, Demand, Direction, Element, Ended,
    Exception, Handlers, HotSwap, Known, Load, Nanos, PerSession, Pressing, Reason,
    SessionFunction, Size, StreamMember, StreamPlan,
};
use thruway_flow::SessionDef;
use thruway_packet::{Batch, Memory, Packet, PoolStats};
use thruway_stream::content::{Content, HasContent};
use thruway_stream::tcp::overlap::Overlap;
use thruway_stream::tcp::{
    Arrival, AtBound, DropReason, Mode, Out, Restore, Settings, Tcp, Urgent,
};
use thruway_stream::unseen::{self, unseen};
use thruway_wire::ip_protocol;
use zerocopy::{FromBytes, IntoBytes};

use super::drops::{NO_ROOM, UNSEEN};
use super::exceptions::{exceptions, one_of_each};
use super::follow::Follow;
use super::price::entering;
use super::session_state::{FOLLOWED, SessionState, WANTS, is_tcp};

/// How long a connection is known after both ends have said that they finish, seconds: data before
/// that may have got lost, and times between retransmissions double (RFC 6298 section 5.5).
const CLOSED_S: u32 = 60;
/// Most bytes of BUFFER.
const BUFFER_MAX: u64 = 1 << 30;

/// How long nothing is sent again when a function has no room for it.
const REST_NS: i64 = 10_000_000;

#[derive(Handlers)]
#[handler(
    sum, name = "connections", "connections", get = (self.tcp.len() as u64 + self.follow.open)
)]
#[handler(
    sum, name = "opened", "connections that were opened",
    get = (self.tcp.counts.opened + self.follow.opened)
)]
#[handler(
    sum, name = "picked_up", "connections picked up without their handshake",
    get = (self.tcp.counts.picked_up + self.follow.picked_up)
)]
#[handler(sum, name = "closed", "connections that were reset here", get = self.tcp.counts.closed)]
#[handler(
    sum, name = "passed", "connections that went on unseen at the bound",
    get = self.tcp.counts.passed
)]
#[handler(
    sum, name = "reordered", "segments that waited for missing ones",
    get = self.tcp.counts.reordered
)]
#[handler(sum, name = "resent", "segments sent again from copies", get = self.tcp.counts.resent)]
#[handler(
    sum, name = "acks", "acknowledgements, questions and resets made here",
    get = self.tcp.counts.acks
)]
#[handler(
    sum, name = "split", "segments split because they had grown", get = self.tcp.counts.split
)]
#[handler(
    sum, name = "queued", "segments that waited for room at their receiver",
    get = self.tcp.counts.queued
)]
#[handler(
    sum, name = "kept", "packets kept now, to be acknowledged or sent",
    get = (self.tcp.holding() as u64)
)]
#[handler(
    sum, name = "delayed", "packets that wait for a hole or for room at their receiver now",
    get = (self.tcp.delayed() as u64)
)]
#[handler(sum, name = "memory", "bytes of memory that these hold", get = self.tcp.memory_bytes())]
#[handler(
    sum, name = "pruned", "connections ended to free memory for others",
    get = self.tcp.counts.pruned
)]
#[handler(
    sum, name = "pruned_waiting", "times that segments behind a hole were dropped to free memory",
    get = self.tcp.counts.pruned_waiting
)]
#[handler(
    sum, name = "stalled", "connections reset as nothing was acknowledged for STALL",
    get = self.tcp.counts.stalled
)]
#[handler(
    sum, name = "unreplicated",
    "connections of another host that were reset here, as their state was not known",
    get = self.tcp.counts.unreplicated
)]
#[handler(
    sum, name = "continued", "connections of another host that went on here",
    get = self.tcp.counts.continued
)]
#[handler(
    read, name = "mode", "the processing: follow, order, guard or map",
    get = format!("{:?}", self.settings.mode).to_lowercase()
)]
pub(super) struct TcpIn {
    pub tcp: Tcp,
    pub settings: Settings,
    /// Inputs, and as many outputs.
    ports: u16,
    /// As many share the packet memory.
    threads: u32,
    /// PICK_UP, where it is given.
    pick_up: Option<bool>,
    /// Whatever functions need, this is done.
    least: Mode,
    /// Packets that functions cannot inspect are dropped.
    refuses_unseen: bool,
    pub follow: Follow,
    out: Out,
    /// Functions of the context that may have no room for more.
    pressing: Pressing,
    /// When its timer comes.
    armed: Option<i64>,
    /// Not before this, as what it sends would find no room.
    rests_until: i64,
    problem: Option<String>,
}

/// Of the arguments of TCPIn.
pub(super) fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
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
        ports: args.env().inputs.min(usize::from(u16::MAX)) as u16,
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
        self.restore(cx);
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
        self.restore(cx);
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
        Some(Demand { closed_s, ..WANTS.demand_of(session) })
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

impl ConnectionTransfer for TcpIn {
    fn is_busy(&self, state: &[u8]) -> bool {
        connection(state).is_some_and(|conn| self.tcp.is_busy(conn))
    }

    fn export(&mut self, state: &[u8], functions: Option<[&[u8]; 2]>, out: &mut Vec<u8>) -> bool {
        connection(state).is_some_and(|conn| self.tcp.export(conn, functions, out))
    }

    fn import(
        &mut self,
        bytes: &[u8],
        fcbs: [u32; 2],
        state: &mut [u8],
    ) -> Result<(), &'static str> {
        let conn = self.tcp.import(connection(state), bytes, fcbs, self.ports)? + 1;
        SessionState { conn }.write_to(state).map_err(|_| "a state of another size")
    }

    fn serve(&mut self, now: i64, serves: bool) {
        if serves {
            self.tcp.serve(now);
        } else {
            self.tcp.stand_by(now, &mut self.out);
        }
    }

    fn replicate(&mut self, is_live: bool) {
        self.tcp.set_replicating(is_live);
    }

    fn due(&mut self) -> Option<i64> {
        let due = self.tcp.due().map(|due| due.max(self.rests_until))?;
        // Its own timer may be set for later.
        if self.armed.is_some_and(|at| at <= due) {
            return None;
        }
        self.armed = Some(due);
        self.armed
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

/// The number of a session's connection, if it has one here.
fn connection(state: &[u8]) -> Option<u32> {
    let state = SessionState::read_from_bytes(state).ok()?;
    Some(state.conn).filter(|conn| ![0, FOLLOWED].contains(conn)).map(|conn| conn - 1)
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

/// Sends on what the engine gave; packets for output 0 are left in the batch.
pub(super) fn send(cx: &mut Cx<'_>, out: &mut Out, batch: &mut Batch) {
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

    /// Gives functions their states of connections that another host served.
    fn restore(&mut self, cx: &mut Cx<'_>) {
        for restore in self.tcp.restores() {
            let Restore { conn, fcb, direction, functions } = restore;
            if cx.transfers().restore_stream(fcb, direction, &functions).is_err() {
                self.tcp.abandon(conn, cx.now(), &mut self.out);
            }
        }
    }

    /// Sees to it that the engine is called in time.
    pub(super) fn arm(&mut self, cx: &mut Cx<'_>) {
        let Some(due) = self.tcp.due().map(|due| due.max(self.rests_until)) else { return };
        if self.armed.is_none_or(|at| due < at) {
            self.armed = Some(due);
            cx.set_timer(0, due);
        }
    }
}
