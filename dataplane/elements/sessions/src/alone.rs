//! A function with state per session alone, for tests: a plain table finds the sessions, IPv4
//! connections by their five-tuple.

use std::collections::HashMap;

use thruway_element::{
    Answers, Direction, Life, NoAnswer, Opening, PerSession, Reason, Session, Verdict,
};
use thruway_flow::{Ended, Phase, Transport};
use thruway_packet::Packet;
use thruway_wire::flow::FiveTuple;
use thruway_wire::ipv4::Ipv4Header;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Five-tuple.
pub(crate) type Tuple = FiveTuple<u32>;

/// One session, its life and where the function's state is.
struct Record<S> {
    forward: Tuple,
    answer: Option<Tuple>,
    state: Option<S>,
    life: Life,
}

/// Functions with their sessions.
pub(crate) struct Table<F: PerSession> {
    /// The function.
    pub(crate) function: F,
    /// Present time.
    pub(crate) now: i64,
    records: HashMap<u32, Record<F::State>>,
    /// Both directions.
    keys: HashMap<Tuple, (u32, Direction)>,
    next: u32,
    /// States of evicted sessions, to be passed to the function.
    evicted: Vec<F::State>,
    /// By forward tuple: what another thread's replica would be given.
    pub(crate) published: HashMap<Tuple, [u64; 4]>,
}

/// The side of an opening that this table plays.
struct Asked<'a, S> {
    index: u32,
    records: &'a mut HashMap<u32, Record<S>>,
    keys: &'a mut HashMap<Tuple, (u32, Direction)>,
    evicted: &'a mut Vec<S>,
    published: &'a mut HashMap<Tuple, [u64; 4]>,
}

impl<S: FromBytes + IntoBytes + KnownLayout + Immutable> Answers for Asked<'_, S> {
    fn answer(&mut self, reply: &Tuple) -> Result<(), NoAnswer> {
        if self.keys.get(reply).is_some_and(|(index, _)| *index != self.index) {
            return Err(NoAnswer::Taken);
        }
        let record = self.records.get_mut(&self.index).unwrap();
        let old = record.answer.replace(*reply).unwrap_or(record.forward.reversed());
        self.keys.remove(&old);
        self.keys.insert(*reply, (self.index, Direction::Reply));
        Ok(())
    }

    fn answer6(&mut self, _: &FiveTuple<[u8; 16]>) -> Result<(), NoAnswer> {
        Err(NoAnswer::NoRoom)
    }

    fn published(&self) -> Option<[u64; 4]> {
        None
    }

    fn publish(&mut self, words: &[u64]) {
        let mut four = [0; 4];
        four[..words.len()].copy_from_slice(words);
        self.published.insert(self.records[&self.index].forward, four);
    }

    fn session(&self) -> u32 {
        self.index
    }

    fn evict(&mut self, session: u32, take: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        let Some(record) = self.records.get_mut(&session) else { return false };
        let is_embryonic =
            (record.life.transport(), record.life.phase()) == (Transport::Tcp, Phase::New);
        let Some(state) = record.state.as_mut().filter(|_| is_embryonic) else { return false };
        if !take(state.as_mut_bytes()) {
            return false;
        }
        self.keys.retain(|_, (of, _)| *of != session);
        self.evicted.extend(self.records.remove(&session).and_then(|record| record.state));
        true
    }
}

/// A packet with its headers marked, as the classifier marks them.
pub(crate) fn marked(bytes: &[u8]) -> Packet {
    let mut packet = Packet::new(bytes).unwrap();
    packet.set_network(0, if bytes[0] >> 4 == 6 { 40 } else { usize::from(bytes[0] & 15) * 4 });
    packet
}

/// The five-tuple of an IPv4 packet that has a session: identifiers of queries are ports.
pub(crate) fn tuple_of(bytes: &[u8]) -> Option<Tuple> {
    let (header, payload) = Ipv4Header::parse_cut(bytes).ok().map(|(ip, _, rest)| (ip, rest))?;
    if header.is_fragment() {
        return None;
    }
    let mut tuple = FiveTuple::of_ipv4(header, payload);
    if tuple.protocol == 1 {
        let ident = u16::from_be_bytes([*payload.get(4)?, *payload.get(5)?]);
        (tuple.src_port, tuple.dst_port) = (ident, ident);
    }
    Some(tuple)
}

impl<F: PerSession> Table<F> {
    /// No sessions yet.
    pub(crate) fn new(function: F) -> Table<F> {
        Table {
            function,
            now: 0,
            records: HashMap::new(),
            keys: HashMap::new(),
            next: 0,
            evicted: Vec::new(),
            published: HashMap::new(),
        }
    }

    /// Hands an IPv4 packet to the function.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> (Verdict, Packet) {
        let mut packet = marked(bytes);
        let verdict = self.pass(&mut packet);
        (verdict, packet)
    }

    fn pass(&mut self, packet: &mut Packet) -> Verdict {
        let bytes = packet.network().to_vec();
        let is_error = bytes[9] == 1 && matches!(bytes.get(20), Some(3 | 4 | 5 | 11 | 12));
        let tuple = if is_error { tuple_of(&bytes[28..]) } else { tuple_of(&bytes) };
        let Some(tuple) = tuple else { return self.function.without(packet) };
        if is_error {
            // The error travels against the packet that it quotes, which left the box translated.
            let Some((index, direction)) = self.keys.get(&tuple.reversed()).copied() else {
                return self.function.without(packet);
            };
            return self.hand(packet, index, direction, true);
        }
        let (index, direction) = match self.keys.get(&tuple) {
            Some(found) => *found,
            None => (self.begin(tuple, &bytes), Direction::Forward),
        };
        self.hand(packet, index, direction, false)
    }

    fn begin(&mut self, forward: Tuple, bytes: &[u8]) -> u32 {
        let index = self.next;
        self.next += 1;
        let flags = if forward.protocol == 6 { bytes[33] } else { 0 };
        let life = Life::begin(forward.protocol, flags, Direction::Forward);
        self.records.insert(index, Record { forward, answer: None, state: None, life });
        self.keys.insert(forward.reversed(), (index, Direction::Reply));
        self.keys.insert(forward, (index, Direction::Forward));
        index
    }

    fn hand(
        &mut self,
        packet: &mut Packet,
        index: u32,
        direction: Direction,
        related: bool,
    ) -> Verdict {
        let now = self.now;
        let opened = self.records[&index].state;
        let mut state = match opened {
            Some(state) => state,
            None => match self.open(packet, index, direction, related) {
                Ok(state) => state,
                Err(reason) => return Verdict::Drop(reason),
            },
        };
        let record = self.records.get_mut(&index).unwrap();
        if !related {
            let tcp = packet.network()[9] == 6;
            record.life =
                record.life.after(direction, if tcp { packet.transport()[13] } else { 0 });
        }
        let life = record.life;
        let mut session = Session { state: &mut state, direction, related, life, now, end: false };
        let verdict = self.function.each(packet, &mut session);
        let end = session.end;
        self.records.get_mut(&index).unwrap().state = Some(state);
        if end {
            self.end(index, Ended::Removed);
        }
        verdict
    }

    fn open(
        &mut self,
        packet: &mut Packet,
        index: u32,
        direction: Direction,
        related: bool,
    ) -> Result<F::State, Reason> {
        let mut state = F::State::new_zeroed();
        let Table { records, keys, evicted, published, .. } = self;
        let mut asked = Asked { index, records, keys, evicted, published };
        let mut opening = Opening { direction, related, now: self.now, answers: &mut asked };
        let opened = self.function.open(&mut opening, packet, &mut state);
        for state in self.evicted.drain(..) {
            self.function.close(&state, Ended::Evicted);
        }
        opened.map(|()| state)
    }

    fn end(&mut self, index: u32, why: Ended) {
        let record = self.records.remove(&index).unwrap();
        self.keys.retain(|_, (of, _)| *of != index);
        if let Some(state) = record.state {
            self.function.close(&state, why);
        }
    }

    /// Whether a session with this tuple lives.
    pub(crate) fn has(&self, tuple: &Tuple) -> bool {
        self.keys.contains_key(tuple)
    }

    /// Ends the session of a forward tuple.
    pub(crate) fn end_of(&mut self, forward: Tuple) {
        if let Some((index, _)) = self.keys.get(&forward).copied() {
            self.end(index, Ended::TimedOut);
        }
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&mut self) {
        let all: Vec<u32> = self.records.keys().copied().collect();
        for index in all {
            self.end(index, Ended::TimedOut);
        }
    }
}
