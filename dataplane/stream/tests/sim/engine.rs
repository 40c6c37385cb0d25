//! The engine as the middle, with functions in it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use thruway_packet::Packet;
use thruway_payload::Needs;
use thruway_stream::content::HasContent;
use thruway_stream::stage::{Hold, Memory, Stage};
use thruway_stream::tcp::{Arrival, DropReason, Mode, Out, Settings, Tcp};
use thruway_wire::Header;
use thruway_wire::ethernet::EthernetHeader;
use thruway_wire::tcp::{TcpHeader, flags};

use crate::frame::Side;
use crate::functions::{Function, FunctionState};
use crate::middle::Middle;

/// Time after which the session of a connection that is over is forgotten, and of any other that is
/// silent, nanoseconds: as a flow manager does it.
const OVER: i64 = 130_000_000_000;
const SILENT: i64 = 1_800_000_000_000;

/// What is known of a session.
struct Session {
    key: Key,
    conn: u32,
    last: i64,
    /// Number of the SYN that it began with.
    syn: Option<u32>,
    /// That SYN was one of the former session, which was over: it came late, or twice. What follows
    /// may pass, but is nothing that the receiver takes.
    is_ghost: bool,
    /// Of each function: what its stage and what it itself remembers.
    memories: Vec<(Memory, FunctionState)>,
}

/// How the engine is set up.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    pub functions: Vec<Function>,
    pub settings: Settings,
    pub hold: Hold,
    /// Packets are shown to functions one by one, not in runs.
    pub one_by_one: bool,
    /// Everything passes unseen until then: nanoseconds since the Unix epoch.
    pub deaf_until: i64,
}

/// Version of IP, and ports of A and B.
pub type Key = (u8, [u16; 2]);

/// What the first function was shown of the directions of each connection: it only looks.
pub type Seen = Rc<RefCell<HashMap<Key, [Vec<u8>; 2]>>>;

/// See the module.
pub struct Engine {
    tcp: Tcp,
    functions: Vec<(Function, Stage)>,
    sessions: Vec<Option<Session>>,
    one_by_one: bool,
    deaf_until: i64,
    pub seen: Seen,
    trace: bool,
    /// What was dropped, by [`DropReason`].
    pub drops: [u64; DropReason::ALL.len()],
}

impl Engine {
    pub fn new(config: EngineConfig) -> Engine {
        let EngineConfig { functions, settings, hold, one_by_one, deaf_until } = config;
        let needs = functions.iter().fold(Needs::NOTHING, |all, one| all.and(one.needs()));
        let mode = settings.mode.max(Mode::of(needs));
        // What was changed before a connection was picked up cannot be made up for.
        let pick_up = settings.pick_up && mode < Mode::Map && !needs.change;
        let settings = Settings { mode, pick_up, ..settings };
        Engine {
            tcp: Tcp::new(settings),
            functions: functions.into_iter().map(|one| (one, Stage::new(hold))).collect(),
            sessions: Vec::new(),
            one_by_one,
            deaf_until,
            seen: Seen::default(),
            trace: std::env::var_os("THRUWAY_TRACE").is_some(),
            drops: [0; DropReason::ALL.len()],
        }
    }

    /// A stream as it leaves the functions.
    pub fn whole(functions: &[Function], data: &[u8]) -> Vec<u8> {
        functions.iter().fold(data.to_vec(), |data, function| function.whole(&data))
    }

    /// The session that a packet belongs to.
    fn session(&mut self, from: Side, packet: &Packet, now: i64) -> Option<usize> {
        let key = key(from, packet)?;
        let is_same = |session: &Option<Session>| session.as_ref().is_some_and(|s| s.key == key);
        let (syn, mut is_ghost) = (first_number(packet), false);
        if let Some(at) = self.sessions.iter().position(is_same) {
            let session = self.sessions[at].as_mut()?;
            let is_same_syn = session.syn == syn;
            if !(syn.is_some() && self.tcp.is_over(session.conn)) {
                session.syn = syn.or(session.syn);
                session.is_ghost &= syn.is_none() || is_same_syn;
                return Some(at);
            }
            // As a flow manager does it: a session that is over does not begin again.
            is_ghost = is_same_syn;
            self.end(at);
        }
        let conn = self.tcp.open()?;
        let memories = self.functions.iter().map(|_| Default::default()).collect();
        let session = Some(Session { key, conn, last: now, syn, is_ghost, memories });
        match self.sessions.iter().position(Option::is_none) {
            Some(at) => self.sessions[at] = session,
            None => self.sessions.push(session),
        }
        self.sessions.iter().position(is_same)
    }

    /// Takes packets from the entry through the functions from one on, and out at the exit.
    fn through(&mut self, first: usize, entered: Out, now: i64, out: &mut Vec<(Side, Packet)>) {
        self.count(&entered);
        let mut left = Out::default();
        let mut packets = entered.packets.into_iter().peekable();
        while let Some((port, packet)) = packets.next() {
            let mut run = vec![packet];
            while !self.one_by_one
                && run[0].content_mark().is_shown()
                && let Some((_, next)) = packets.next_if(|(_, next)| {
                    next.content_mark().is_shown()
                        && Stage::continues(run.last().expect("not empty"), next)
                })
            {
                run.push(next);
            }
            self.show(first, port, &mut run, now);
            for packet in run {
                self.tcp.depart(port, packet, now, &mut left);
            }
        }
        self.count(&left);
        out.extend(left.packets.into_iter().map(|(port, packet)| (side_of(port).other(), packet)));
    }

    fn count(&mut self, out: &Out) {
        for (index, n) in out.drops.iter().enumerate().filter(|(_, n)| **n > 0) {
            self.drops[index] += u64::from(*n);
            if self.trace {
                eprintln!("{:>24}| {} x {n}", "", DropReason::ALL[index].1);
            }
        }
    }

    /// Shows functions a run of packets.
    fn show(&mut self, first: usize, port: usize, run: &mut [Packet], now: i64) {
        let fcb = run[0].fcb();
        let (at, direction) = (fcb as usize / 2, fcb as usize % 2);
        let Some(Some(session)) = self.sessions.get_mut(at) else { return };
        let is_ghost = session.is_ghost;
        let all = self.functions.iter_mut().zip(&mut session.memories).enumerate().skip(first);
        for (index, ((function, stage), (memory, state))) in all {
            if !run[0].content_mark().is_shown() {
                return;
            }
            let mut seen = self.seen.borrow_mut();
            let seen = &mut seen.entry(session.key).or_default()[direction];
            stage.run(memory, run, (port, direction, now), &mut |data| {
                if index == 0 && !is_ghost && matches!(function, Function::Look) {
                    seen.extend(data.by_ref());
                }
                function.show(state, data)
            });
        }
    }

    /// Lets go what was held back for too long.
    fn late(&mut self, now: i64, out: &mut Vec<(Side, Packet)>) {
        for index in 0..self.functions.len() {
            while let Some((port, packet)) = self.functions[index].1.late(now) {
                let fcb = packet.fcb() as usize;
                if let Some(Some(session)) = self.sessions.get_mut(fcb / 2) {
                    Stage::let_go(&mut session.memories[index].0, fcb % 2);
                }
                let entered = Out { packets: vec![(port, packet)], ..Out::default() };
                self.through(index, entered, now, out);
            }
        }
    }

    /// When a session ends if nothing comes.
    fn due(&self, session: &Session) -> i64 {
        session.last + if self.tcp.is_over(session.conn) { OVER } else { SILENT }
    }

    fn end_all(&mut self, now: i64) {
        for at in 0..self.sessions.len() {
            if self.sessions[at].as_ref().is_some_and(|session| self.due(session) <= now) {
                self.end(at);
            }
        }
    }

    fn end(&mut self, at: usize) {
        let Some(mut session) = self.sessions[at].take() else { return };
        for ((_, stage), (memory, _)) in self.functions.iter_mut().zip(&mut session.memories) {
            stage.forget(memory);
        }
        self.tcp.close(session.conn, &mut Out::default());
    }
}

impl Middle for Engine {
    fn packet(&mut self, now: i64, from: Side, mut packet: Packet, out: &mut Vec<(Side, Packet)>) {
        if now < self.deaf_until {
            return out.push((from.other(), packet));
        }
        let Some(at) = self.session(from, &packet, now) else { return };
        let Some(session) = &mut self.sessions[at] else { return };
        session.last = now;
        let direction = from.index();
        packet.set_fcb((at * 2 + direction) as u32);
        let arrival = Arrival { conn: session.conn, direction, port: from.index(), now };
        let mut entered = Out::default();
        self.tcp.arrive(arrival, packet, &mut entered);
        self.through(0, entered, now, out);
    }

    fn tick(&mut self, now: i64, out: &mut Vec<(Side, Packet)>) {
        let mut entered = Out::default();
        self.tcp.tick(now, &mut entered);
        self.through(0, entered, now, out);
        self.late(now, out);
        self.end_all(now);
    }

    fn next_tick(&self) -> Option<i64> {
        let sessions = self.sessions.iter().flatten().map(|session| self.due(session));
        let stages = self.functions.iter().filter_map(|(_, stage)| stage.due());
        sessions.chain(stages).chain(self.tcp.due()).min()
    }

    /// With what is kept of connections.
    fn connections(&self) -> usize {
        let held: usize = self.functions.iter().map(|(_, stage)| stage.holding()).sum();
        self.sessions.iter().flatten().count() + self.tcp.len() + self.tcp.holding() + held
    }
}

/// From which side packets of a port come.
fn side_of(port: usize) -> Side {
    Side::BOTH[port & 1]
}

fn key(from: Side, packet: &Packet) -> Option<(u8, [u16; 2])> {
    let version = packet.data().get(EthernetHeader::LEN)? >> 4;
    let (tcp, _) = TcpHeader::view(packet.transport()).ok()?;
    let ports = match from {
        Side::A => [tcp.src_port(), tcp.dst_port()],
        Side::B => [tcp.dst_port(), tcp.src_port()],
    };
    Some((version, ports))
}

/// The number of a segment that begins a connection.
fn first_number(packet: &Packet) -> Option<u32> {
    let (tcp, _) = TcpHeader::view(packet.transport()).ok()?;
    let is_first = tcp.flags() & (flags::SYN | flags::ACK) == flags::SYN;
    is_first.then(|| tcp.seq())
}
