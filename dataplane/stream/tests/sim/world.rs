//! Pairs of hosts, the links between them and the middlebox, and the expected result.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt::{self, Display};

use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::ethernet::EthernetHeader;
use thruway_wire::tcp::TcpHeader;

use crate::frame::{Segment, Side, Wire};
use crate::host::Fault;
use crate::middle::Middle;
use crate::offload;
use crate::pair::{Pair, PairPlan};
use thruway_random::Random;

/// When it begins: nanoseconds since the Unix epoch.
pub const BEGINNING: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;
/// Time in which a connection must have ended, and then the middle must have forgotten it.
const TIME_LIMIT: i64 = 4 * 3600 * SECOND;
const MEMORY_LIMIT: i64 = 3600 * SECOND;
/// Things that may happen in one run.
const EVENT_LIMIT: u64 = 3_000_000;

/// What goes wrong.
#[derive(Debug, Clone)]
pub enum Failure {
    /// A host saw what no correct peer sends.
    Violation(Fault, String),
    /// What arrived is not what should have.
    Stream(String),
    /// A reset that no host sent.
    Reset(String),
    /// It did not come to its end.
    Stuck(String),
    /// The middle remembers what is over.
    Remembered(String),
    /// A packet of no connection.
    Stray(String),
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Violation(fault, text) => write!(f, "violation {fault:?}: {text}"),
            Failure::Stream(text) => write!(f, "stream {text}"),
            Failure::Reset(text) => write!(f, "a reset that no host sent: {text}"),
            Failure::Stuck(text) => write!(f, "stuck: {text}"),
            Failure::Remembered(text) => write!(f, "the middle remembers: {text}"),
            Failure::Stray(text) => write!(f, "a packet of no connection: {text}"),
        }
    }
}

/// Destination of a packet in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The middle, from this side.
    Middle(Side),
    Host(Side),
}

struct Flight {
    at: i64,
    order: u64,
    pair: usize,
    target: Target,
    packet: Packet,
}

impl Flight {
    fn key(&self) -> (i64, u64) {
        (self.at, self.order)
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Flight) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Flight {}
impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Flight) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flight {
    fn cmp(&self, other: &Flight) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// See the module.
pub struct World<'m> {
    pub now: i64,
    flights: BinaryHeap<Reverse<Flight>>,
    order: u64,
    pairs: Vec<Pair>,
    middle: &'m mut dyn Middle,
    random: Random,
    events: u64,
    trace: bool,
    /// Connections may be reset by the middle: then what arrived is the beginning of what should
    /// have.
    pub may_break: bool,
    /// Segments that hosts send at once reach the middle as one packet.
    pub is_offloaded: bool,
    out: Vec<(Side, Packet)>,
    stray: Option<String>,
}

impl<'m> World<'m> {
    pub fn new(plans: Vec<PairPlan>, middle: &'m mut dyn Middle, mut random: Random) -> World<'m> {
        let pair = |plan: PairPlan| Pair::new(plan, BEGINNING, &mut random);
        World {
            now: BEGINNING,
            flights: BinaryHeap::new(),
            order: 0,
            pairs: plans.into_iter().map(pair).collect(),
            middle,
            random,
            events: 0,
            trace: std::env::var_os("THRUWAY_TRACE").is_some(),
            may_break: false,
            is_offloaded: false,
            out: Vec::new(),
            stray: None,
        }
    }

    /// Runs until all connections have ended. `expected` reports what becomes of what a side of a
    /// connection writes.
    pub fn run(&mut self, expected: impl Fn(&Wire, Side, &[u8]) -> Vec<u8>) -> Result<(), Failure> {
        let deadline = self.now - BEGINNING + TIME_LIMIT;
        self.run_until(|world| world.pairs.iter().all(Pair::is_over), deadline)?;
        self.pairs.iter().try_for_each(|pair| pair.judge(&expected, self.may_break))
    }

    /// Waits until the middle has forgotten them.
    pub fn be_forgotten(&mut self) -> Result<(), Failure> {
        let deadline = self.now - BEGINNING + MEMORY_LIMIT;
        let is_forgotten = |world: &World<'_>| world.middle.connections() == 0;
        self.run_until(is_forgotten, deadline).map_err(|failure| match failure {
            Failure::Stuck(text) => Failure::Remembered(text),
            other => other,
        })
    }

    /// The pairs once more: the same ports, new connections.
    pub fn again(&mut self) {
        let (now, random) = (self.now, &mut self.random);
        for pair in &mut self.pairs {
            let mut plan = pair.plan.clone();
            for host in &mut plan.hosts {
                host.iss = host.iss.wrapping_add(random.size(100_000..=10_000_000) as u32);
            }
            *pair = Pair::new(plan, now, random);
        }
    }

    fn run_until(&mut self, is_done: impl Fn(&Self) -> bool, limit: i64) -> Result<(), Failure> {
        while !is_done(self) {
            let Some(at) = self.next() else {
                let done = is_done(self);
                return if done { Ok(()) } else { Err(Failure::Stuck(self.describe("silence"))) };
            };
            self.events += 1;
            if at - BEGINNING > limit || self.events > EVENT_LIMIT {
                return Err(Failure::Stuck(self.describe("no end")));
            }
            self.now = self.now.max(at);
            self.step();
            self.check()?;
        }
        Ok(())
    }

    fn next(&self) -> Option<i64> {
        let flight = self.flights.peek().map(|flight| flight.0.at);
        let pairs = self.pairs.iter().filter_map(Pair::next_tick).min();
        [flight, pairs, self.middle.next_tick()].into_iter().flatten().min()
    }

    fn step(&mut self) {
        if let Some(flight) = self.flights.peek()
            && flight.0.at <= self.now
            && let Some(Reverse(flight)) = self.flights.pop()
        {
            return self.arrive(flight);
        }
        for index in 0..self.pairs.len() {
            self.pairs[index].tick(self.now, self.may_break);
            self.send_all(index);
        }
        if self.middle.next_tick().is_some_and(|at| at <= self.now) {
            let mut out = std::mem::take(&mut self.out);
            self.middle.tick(self.now, &mut out);
            self.forward(out);
        }
    }

    fn arrive(&mut self, flight: Flight) {
        let Flight { pair, target, mut packet, .. } = flight;
        self.pairs[pair].in_flight -= 1;
        self.log(pair, target, &packet);
        match target {
            Target::Host(side) => {
                self.pairs[pair].hosts[side.index()].frame(self.now, packet.data());
                self.send_all(pair);
                self.pairs[pair].restart(self.now);
            }
            Target::Middle(side) => {
                packet.set_timestamp(self.now);
                let mut out = std::mem::take(&mut self.out);
                self.middle.packet(self.now, side, packet, &mut out);
                self.forward(out);
            }
        }
    }

    /// Sends what the hosts of a pair have to send.
    fn send_all(&mut self, index: usize) {
        for side in Side::BOTH {
            let segments = std::mem::take(&mut self.pairs[index].hosts[side.index()].out);
            let wire = self.pairs[index].plan.wire;
            let packets = match self.is_offloaded {
                true => offload::joined(segments, &wire, side),
                false => segments.iter().map(|segment| segment.emit(&wire, side)).collect(),
            };
            for packet in packets {
                self.dispatch(index, Target::Middle(side), packet);
            }
        }
    }

    /// Sends on what the middle let out.
    fn forward(&mut self, mut out: Vec<(Side, Packet)>) {
        for (to, packet) in out.drain(..) {
            match self.pair_of(to, &packet) {
                Some(pair) => {
                    let wire = self.pairs[pair].plan.wire;
                    let packets = offload::cut(&packet, &wire, to).unwrap_or(vec![packet]);
                    for packet in packets {
                        self.dispatch(pair, Target::Host(to), packet);
                    }
                }
                None => self.stray = Some(format!("to {to:?}: {:02x?}", packet.data())),
            }
        }
        self.out = out;
    }

    fn pair_of(&self, to: Side, packet: &Packet) -> Option<usize> {
        let is_v6 = |pair: &Pair| pair.plan.wire.v6;
        let ip_len = |pair: &Pair| if is_v6(pair) { 40 } else { 20 };
        self.pairs.iter().position(|pair| {
            let at = EthernetHeader::LEN + ip_len(pair);
            let Some(Ok((tcp, _))) = packet.data().get(at..).map(TcpHeader::view) else {
                return false;
            };
            let ports = (tcp.src_port(), tcp.dst_port());
            let wire = &pair.plan.wire;
            let version = packet.data()[EthernetHeader::LEN] >> 4;
            ports == (wire.ports[to.other().index()], wire.ports[to.index()])
                && (version == 6) == wire.v6
        })
    }

    fn dispatch(&mut self, index: usize, target: Target, packet: Packet) {
        let World { now, flights, order, pairs, .. } = self;
        let Pair { before, behind, in_flight, .. } = &mut pairs[index];
        let link = match target {
            Target::Middle(side) => &mut before[side.index()],
            Target::Host(side) => &mut behind[side.index()],
        };
        link.send(*now, packet, |at, packet| {
            *order += 1;
            *in_flight += 1;
            flights.push(Reverse(Flight { at, order: *order, pair: index, target, packet }));
        });
    }

    fn log(&self, pair: usize, target: Target, packet: &Packet) {
        if !self.trace {
            return;
        }
        let wire = &self.pairs[pair].plan.wire;
        let to = match target {
            Target::Middle(side) => side.other(),
            Target::Host(side) => side,
        };
        let ms = (self.now - BEGINNING) as f64 / 1e6;
        let direction = match target {
            Target::Middle(side) => format!("{side:?} > |  "),
            Target::Host(side) => format!("  | > {side:?}"),
        };
        match Segment::parse(wire, to, packet.data()) {
            Ok(segment) => eprintln!("{ms:12.3} ms #{pair} {direction} {segment:?}"),
            Err(what) => eprintln!("{ms:12.3} ms #{pair} {direction} bad: {what}"),
        }
    }

    /// What is wrong now, if anything.
    fn check(&mut self) -> Result<(), Failure> {
        if let Some(text) = self.stray.take() {
            return Err(Failure::Stray(text));
        }
        for pair in &self.pairs {
            for host in &pair.hosts {
                if let Some(violation) = host.violations.first() {
                    let ms = (self.now - BEGINNING) as f64 / 1e6;
                    let text = format!("{ms:.3} ms: {}", violation.detail);
                    return Err(Failure::Violation(violation.fault, text));
                }
            }
        }
        Ok(())
    }

    fn describe(&self, what: &str) -> String {
        let mut text = format!("{what} after {} s", (self.now - BEGINNING) / SECOND);
        for (index, pair) in self.pairs.iter().enumerate() {
            for (side, host) in Side::BOTH.iter().zip(&pair.hosts) {
                text += &format!(
                    "; #{index} {side:?} {:?} sent {} of {} acked {} edge {}, got {} fin {:?}",
                    host.stage,
                    host.tx.max,
                    host.tx.end(),
                    host.tx.una,
                    host.tx.edge,
                    host.rx.nxt,
                    host.rx.fin,
                );
            }
        }
        text + &format!("; the middle has {}", self.middle.connections())
    }
}
