//! How a session begins, goes on and ends.

use std::net::Ipv4Addr;

use thruway_element::{
    Answers, Direction, NoAnswer, Opening, PerSession, Phase, Reason, Session, Verdict, reasons,
};
use thruway_flow::Ended;
use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::flow::FiveTuple;
use thruway_wire::icmp::icmp_type;
use thruway_wire::ipv4::Ipv4Header;

use super::embryonic::Embryonic;
use super::kind::{Kind, tuple_of};
use super::mapping::{Mapping, Mappings};
use super::ports::{Asker, NoPort, Outside, Ports};
use super::rules::Rules;
use super::state::{
    Endpoint, Fate, HAIRPIN, HOLDS_PERMIT, HOLDS_PORT, HOLDS_SOURCE, HOLDS_TARGET, INWARD,
    NatSession, OUTWARD, Side,
};

reasons! {
    /// Why a packet goes no further.
    pub(super) enum NatDrop {
        NoPort = "no-port": "all outside ports that its source may have are in use",
        HostLimit = "host-limit": "its source has used up the blocks of ports that one may have",
        NoMapping = "no-mapping": "it is for an outside address, and no inside host has that port",
        Filtered = "filtered": "FILTER does not let its source send to that mapping",
        NoRule = "no-rule": "no rule covers its source",
        Full = "mappings-full": "there is no room for another mapping",
        NoRoom = "no-room": "the flow manager has no room for its replies",
        NoSession = "no-session": "it is not IPv4, a fragment, or of a protocol without ports",
        IcmpError = "icmp-error": "an ICMP error that cannot be translated: a redirect, cut short, \
                                   or about a packet that did not pass here",
        WrongSide = "wrong-side": "it came by the other side's input",
        NotTranslated = "not-translated": "a reply to an address that is not seen on its side",
        Malformed = "malformed": "its headers are not all there",
    }
}

impl From<NoPort> for NatDrop {
    fn from(no_port: NoPort) -> NatDrop {
        match no_port {
            NoPort::None => NatDrop::NoPort,
            NoPort::HostLimit => NatDrop::HostLimit,
        }
    }
}

/// The hosts that may send to a mapping (RFC 4787 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// Anyone.
    EndpointIndependent,
    /// Addresses that the inside endpoint has sent to.
    Address,
    /// Addresses and ports that it has sent to: so only those that have a session.
    AddressAndPort,
}

/// Most ports that are tried for one session: the flow manager refuses a port if another session
/// has the same replies.
const TRIES: usize = 4;

/// The output for packets to the middlebox itself.
const LOCAL: usize = 2;

/// All that one thread's replica knows.
pub(super) struct Translator {
    pub rules: Rules,
    pub ports: Ports,
    /// `None`: every session has a port of its own.
    pub mappings: Option<Mappings>,
    /// Sessions that may end so that others get their ports.
    pub embryonic: Embryonic,
    pub filter: Filter,
    /// Distinguishes states of these tables from those of others.
    pub tables: u32,
    /// Whether output [`LOCAL`] is connected.
    pub has_local: bool,
    /// Input of the present batch.
    pub input: u8,
    /// Present time, nanoseconds.
    pub now: i64,
    /// Translated sessions so far.
    pub created: u64,
}

/// Where a packet for an outside address goes.
#[derive(Clone, Copy)]
struct Target {
    addr: u32,
    port: u16,
    /// The mapping that it goes through.
    mapping: Option<u32>,
}

/// A session that is about to begin.
#[derive(Clone, Copy)]
struct Wanted {
    kind: Kind,
    tuple: FiveTuple<u32>,
    target: Option<Target>,
}

impl Wanted {
    /// Offers the flow manager a translation with this source; returns the state if it agrees.
    fn offer(
        &self,
        source: Endpoint,
        sides: [Side; 2],
        answers: &mut dyn Answers,
    ) -> Result<NatSession, NoAnswer> {
        let Wanted { kind, tuple, target } = self;
        let target =
            target.map_or((tuple.dst, tuple.dst_port), |target| (target.addr, target.port));
        let state = NatSession::translating(*kind, tuple, (source, target), sides)
            .map_err(|_| NoAnswer::NoRoom)?;
        answers.publish(&state.words());
        answers.answer(&state.reply(*tuple))?;
        Ok(state)
    }

    /// The same of a session from inside.
    fn offer_outward(
        &self,
        source: Endpoint,
        answers: &mut dyn Answers,
    ) -> Result<NatSession, NoAnswer> {
        let sides = if self.target.is_some() { [HAIRPIN, HAIRPIN] } else { [OUTWARD, INWARD] };
        self.offer(source, sides, answers)
    }
}

impl Translator {
    /// A session from inside.
    fn open_inside(
        &mut self,
        (kind, tuple): (Kind, FiveTuple<u32>),
        answers: &mut dyn Answers,
    ) -> Result<NatSession, NatDrop> {
        let target = self.target(kind, &tuple);
        if target.is_none() && self.rules.is_outside(tuple.dst) {
            return Ok(NatSession::of_fate(Fate::Local, [OUTWARD, INWARD]));
        }
        if target.is_some_and(|t| t.mapping.is_some()) && self.filter == Filter::AddressAndPort {
            return Ok(NatSession::of_fate(Fate::Filtered, [OUTWARD, INWARD]));
        }
        let wanted = Wanted { kind, tuple, target };
        let mut state = match self.rules.source(tuple.src).ok_or(NatDrop::NoRule)?.pool {
            Some(pool) => self.open_of_pool(pool, &wanted, answers)?,
            None if target.is_none() => {
                return Ok(self.kept([OUTWARD, INWARD], answers));
            }
            None => {
                self.allow(&wanted, tuple.src)?;
                let source = (tuple.src, tuple.src_port);
                wanted.offer_outward(source, answers).map_err(|_| NatDrop::NoRoom)?
            }
        };
        self.hold_target(target, &mut state);
        Ok(state)
    }

    /// A session from outside.
    fn open_outside(
        &mut self,
        (kind, tuple): (Kind, FiveTuple<u32>),
        answers: &mut dyn Answers,
    ) -> Result<NatSession, NatDrop> {
        let Some(target) = self.target(kind, &tuple) else {
            if self.rules.keeps(tuple.dst) {
                return Ok(self.kept([INWARD, OUTWARD], answers));
            }
            return Ok(NatSession::of_fate(Fate::Local, [INWARD, OUTWARD]));
        };
        let wanted = Wanted { kind, tuple, target: Some(target) };
        if self.allow(&wanted, tuple.src).is_err() {
            return Ok(NatSession::of_fate(Fate::Filtered, [INWARD, OUTWARD]));
        }
        let source = (tuple.src, tuple.src_port);
        let state = wanted.offer(source, [INWARD, OUTWARD], answers);
        let mut state = state.map_err(|_| NatDrop::NoRoom)?;
        self.hold_target(Some(target), &mut state);
        Ok(state)
    }

    fn kept(&self, sides: [Side; 2], answers: &mut dyn Answers) -> NatSession {
        let state = NatSession::of_fate(Fate::Keep, sides);
        answers.publish(&state.words());
        state
    }

    fn hold_target(&mut self, target: Option<Target>, state: &mut NatSession) {
        state.tables = self.tables;
        self.created += 1;
        if let (Some(mappings), Some(Target { mapping: Some(at), .. })) =
            (&mut self.mappings, target)
        {
            mappings.hold(at);
            state.target = at;
            state.hold(HOLDS_TARGET);
        }
    }

    /// The owner of the outside address and port that a packet is for. ICMP queries from outside go
    /// to no mapping: they are for the middlebox.
    fn target(&self, kind: Kind, tuple: &FiveTuple<u32>) -> Option<Target> {
        if let Some((addr, port)) = self.rules.forward(kind, tuple.dst, tuple.dst_port) {
            return Some(Target { addr, port, mapping: None });
        }
        let mappings = self.mappings.as_ref().filter(|_| kind != Kind::Icmp)?;
        let address_index = self.ports.address_index(tuple.dst, tuple.dst_port)?;
        let at = mappings.find_outside(address_index, tuple.dst_port, kind)?;
        let mapping = mappings.get(at);
        Some(Target { addr: mapping.host, port: mapping.host_port, mapping: Some(at) })
    }

    /// Whether a source, as it is seen from outside, may send to the target.
    fn allow(&self, wanted: &Wanted, source: u32) -> Result<(), NatDrop> {
        let Some(Target { mapping: Some(at), .. }) = wanted.target else { return Ok(()) };
        let may = match self.filter {
            Filter::EndpointIndependent => true,
            Filter::Address => self.mappings.as_ref().is_some_and(|m| m.may(at, source)),
            Filter::AddressAndPort => false,
        };
        if may { Ok(()) } else { Err(NatDrop::Filtered) }
    }

    /// A session with an outside address and port of a pool.
    fn open_of_pool(
        &mut self,
        pool: usize,
        wanted: &Wanted,
        answers: &mut dyn Answers,
    ) -> Result<NatSession, NatDrop> {
        let FiveTuple { src: host, src_port: port, dst, .. } = wanted.tuple;
        let kind = wanted.kind;
        let known = self.mappings.as_ref().and_then(|m| m.find_inside(host, port, kind));
        let (mut state, outside) = match known {
            Some(at) => self.with_mapping(at, wanted, answers)?,
            None => self.with_port(pool, wanted, answers)?,
        };
        let Some(mappings) = &mut self.mappings else {
            state.source = outside.address_index;
            state.hold(HOLDS_PORT);
            self.list_embryonic(&mut state, (kind, outside), answers.session());
            return Ok(state);
        };
        let at = match known {
            Some(at) => {
                mappings.hold(at);
                at
            }
            None => {
                let Outside { address_index, port: outside_port, .. } = outside;
                let mapping = Mapping {
                    host,
                    host_port: port,
                    port: outside_port,
                    address_index,
                    uses: 1,
                    embryonic: 0,
                    kind: kind as u8,
                };
                // `with_port` made sure that there is room.
                mappings.add(mapping).ok_or(NatDrop::Full)?
            }
        };
        state.source = at;
        state.hold(HOLDS_SOURCE);
        if self.filter == Filter::Address && mappings.permit(at, dst) {
            state.hold(HOLDS_PERMIT);
        }
        self.list_embryonic(&mut state, (kind, outside), answers.session());
        Ok(state)
    }

    /// With the port of a mapping.
    fn with_mapping(
        &mut self,
        at: u32,
        wanted: &Wanted,
        answers: &mut dyn Answers,
    ) -> Result<(NatSession, Outside), NatDrop> {
        let mapping = *self.mappings.as_ref().ok_or(NatDrop::Full)?.get(at);
        let addr = self.ports.addresses()[mapping.address_index as usize].addr;
        self.allow(wanted, addr)?;
        let state = wanted.offer_outward((addr, mapping.port), answers);
        let state = state.map_err(|_| NatDrop::NoRoom)?;
        Ok((state, Outside { address_index: mapping.address_index, addr, port: mapping.port }))
    }

    /// With a port that is free.
    fn with_port(
        &mut self,
        pool: usize,
        wanted: &Wanted,
        answers: &mut dyn Answers,
    ) -> Result<(NatSession, Outside), NatDrop> {
        let FiveTuple { src: host, src_port: port, .. } = wanted.tuple;
        let asker = Asker { host, kind: wanted.kind, port, now: self.now };
        let is_full = self.mappings.as_ref().is_some_and(|mappings| !mappings.has_room());
        if is_full && !self.evict(pool, &asker, answers) {
            return Err(NatDrop::Full);
        }
        let mut refused = [None; TRIES];
        let mut found = Err(NatDrop::NoPort);
        for slot in &mut refused {
            let offered = self.take_port(pool, &asker, answers).map(|outside| {
                *slot = Some(outside);
                self.allow(wanted, outside.addr)?;
                let source = (outside.addr, outside.port);
                match wanted.offer_outward(source, answers) {
                    Ok(state) => Ok(Some((state, outside))),
                    Err(NoAnswer::Taken) => Ok(None),
                    Err(NoAnswer::NoRoom) => Err(NatDrop::NoRoom),
                }
            });
            match offered.flatten() {
                Ok(None) => continue,
                Ok(Some(taken)) => {
                    *slot = None;
                    found = Ok(taken);
                }
                Err(bad) => found = Err(bad),
            }
            break;
        }
        for outside in refused.into_iter().flatten() {
            self.ports.release((outside.address_index, outside.port), wanted.kind, self.now);
        }
        found
    }

    /// A packet that belongs to no translated session, or came by the wrong side's input.
    #[cold]
    fn unusual(&self, packet: &mut Packet, session: &mut Session<'_, NatSession>) -> Verdict {
        let state = *session.state;
        let side = state.side(session.direction);
        let Some(fate) = state.fate() else { return Verdict::drop(NatDrop::NoMapping) };
        match fate {
            Fate::Local if self.has_local => Verdict::To(LOCAL),
            Fate::Local | Fate::Filtered => {
                // Its next packet may find a mapping, and no reply entry must block that.
                session.end = true;
                let reason =
                    if fate == Fate::Local { NatDrop::NoMapping } else { NatDrop::Filtered };
                Verdict::drop(reason)
            }
            _ if side.input != self.input => Verdict::drop(NatDrop::WrongSide),
            Fate::Keep => to(side),
            Fate::Translate if !state.is_addressed(packet, session.direction, session.related) => {
                Verdict::drop(NatDrop::NotTranslated)
            }
            Fate::Translate => {
                let icmp_type = packet.transport().first().copied().unwrap_or_default();
                // A redirect names a gateway of the other side.
                let is_translated = icmp_type != icmp_type::REDIRECT
                    && state.apply(packet, session.direction, true).is_ok();
                if !is_translated {
                    return Verdict::drop(NatDrop::IcmpError);
                }
                packet.set_dst_ip(state.destination(session.direction).to_be_bytes());
                to(side)
            }
        }
    }
}

/// Out of this side's output.
#[inline]
fn to(side: Side) -> Verdict {
    if side.output == 0 { Verdict::Pass } else { Verdict::To(1) }
}

impl PerSession for Translator {
    type State = NatSession;

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut NatSession,
    ) -> Result<(), Reason> {
        if opening.direction == Direction::Reply {
            let words = opening.answers.published().ok_or(NatDrop::NoMapping)?;
            *state = NatSession::from_words(&words).ok_or(NatDrop::NoMapping)?;
            return Ok(());
        }
        if opening.related {
            return Err(NatDrop::IcmpError.into());
        }
        let Some(what) = tuple_of(packet.network()) else {
            // Of a protocol that has ports and is not translated.
            let sides = match self.without(packet) {
                Verdict::Pass => [OUTWARD, INWARD],
                Verdict::To(1) => [INWARD, OUTWARD],
                Verdict::Drop(reason) => return Err(reason),
                _ => {
                    *state = NatSession::of_fate(Fate::Local, [INWARD, OUTWARD]);
                    return Ok(());
                }
            };
            *state = self.kept(sides, opening.answers);
            return Ok(());
        };
        *state = match self.input {
            0 => self.open_inside(what, opening.answers)?,
            _ => self.open_outside(what, opening.answers)?,
        };
        Ok(())
    }

    #[inline]
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, NatSession>) -> Verdict {
        if session.state.ticket != 0 && session.life.phase() != Phase::New {
            self.unlist(session.state);
            session.state.ticket = 0;
        }
        let (state, direction) = (&*session.state, session.direction);
        let side = state.side(direction);
        let is_usual = state.is_translated()
            && !session.related
            && side.input == self.input
            && (direction == Direction::Forward || state.is_addressed(packet, direction, false));
        if !is_usual {
            return self.unusual(packet, session);
        }
        if state.apply(packet, direction, false).is_err() {
            return Verdict::drop(NatDrop::Malformed);
        }
        // Routes are looked up by the annotation.
        packet.set_dst_ip(state.destination(direction).to_be_bytes());
        to(side)
    }

    /// Kept addresses pass whatever the packet is; the middlebox gets what is for it.
    fn without(&mut self, packet: &mut Packet) -> Verdict {
        let Ok((header, _)) = Ipv4Header::view(packet.network()) else {
            return Verdict::drop(NatDrop::NoSession);
        };
        let (src, dst) = (header.src(), header.dst());
        if header.version() != 4 {
            return Verdict::drop(NatDrop::NoSession);
        }
        let is_own = self.rules.is_outside(dst);
        match self.input {
            0 if !is_own && self.rules.keeps(src) => Verdict::Pass,
            1 if !is_own && self.rules.keeps(dst) => Verdict::To(1),
            input if self.has_local && (is_own || input == 1) => Verdict::To(LOCAL),
            _ => Verdict::drop(NatDrop::NoSession),
        }
    }

    fn close(&mut self, state: &NatSession, _why: Ended) {
        let Some(kind) = state.kind() else { return };
        if state.tables != self.tables || !state.is_translated() {
            return;
        }
        self.unlist(state);
        if state.holds(HOLDS_PORT) {
            self.ports.release((state.source, state.from.after().1), kind, self.now);
        }
        let Some(mappings) = &mut self.mappings else { return };
        if state.holds(HOLDS_PERMIT) {
            // The destination as the inside host knows it.
            mappings.revoke(state.source, state.to.before().0);
        }
        let released = [(HOLDS_SOURCE, state.source), (HOLDS_TARGET, state.target)];
        for (what, at) in released {
            if !state.holds(what) {
                continue;
            }
            if let Some(mapping) = mappings.release(at)
                && let Some(kind) = Kind::of_number(mapping.kind)
            {
                self.ports.release((mapping.address_index, mapping.port), kind, self.now);
            }
        }
    }
}

/// A mapping in a line: protocol, inside, outside, sessions.
pub(super) fn describe(mapping: &Mapping, ports: &Ports) -> String {
    let name = Kind::of_number(mapping.kind).map_or("", Kind::name);
    let host = Ipv4Addr::from_bits(mapping.host);
    let addr =
        ports.addresses().get(mapping.address_index as usize).map_or(0, |address| address.addr);
    let addr = Ipv4Addr::from_bits(addr);
    format!("{name} {host}:{} {addr}:{} {}\n", mapping.host_port, mapping.port, mapping.uses)
}
