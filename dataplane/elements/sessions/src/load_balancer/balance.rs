//! The balancer proper: which server a session gets, and its packets' addresses.

use thruway_element::{Direction, NoAnswer, Opening, PerSession, Reason, Session, Verdict};
use thruway_flow::Ended;
use thruway_packet::Packet;
use thruway_random::mix;
use thruway_wire::Header;
use thruway_wire::flow::FiveTuple;
use thruway_wire::ip_protocol::ICMP;
use thruway_wire::ipv4::Ipv4Header;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::address::Service;
use super::lost::Lost;
use super::servers::{Servers, ticket_of};
use crate::pool::Ticket;
use crate::rewrite::{End, Translation};

/// State of a session.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(super) struct Balanced {
    translation: Translation,
    /// The server's slot, or one of the marks below.
    slot: u32,
    generation: u32,
}

/// The session is not for a service: it passes as it is.
const OTHER: u32 = u32::MAX;
/// It began with a packet that claims to come from a service: it has to go.
const SPOOFED: u32 = u32::MAX - 1;
/// Another replica chose the server, which is not among ours: translated, not counted.
const UNKNOWN: u32 = u32::MAX - 2;
/// Another thread's replica chose the server, and counts the session.
const ELSEWHERE: u32 = 1 << 31;

impl Balanced {
    fn marked(slot: u32) -> Balanced {
        Balanced { slot, ..Balanced::default() }
    }

    #[inline]
    fn ticket(&self) -> Ticket {
        Ticket { slot: self.slot & !ELSEWHERE, generation: self.generation }
    }

    fn is_here(&self) -> bool {
        self.slot & ELSEWHERE == 0
    }
}

/// The part of a session that is hashed to find its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashOf {
    /// All of the five-tuple.
    Connection,
    /// The client's address: a client keeps its server.
    Source,
}

/// The balancer.
pub(super) struct Balancer {
    pub(super) services: Vec<Service>,
    pub(super) servers: Servers,
    pub(super) hash_of: HashOf,
}

/// The five-tuple of a packet with a session, if it is IPv4; identifiers of queries are ports.
fn tuple_of(packet: &Packet) -> Option<FiveTuple<u32>> {
    let (header, _) = Ipv4Header::view(packet.network()).ok()?;
    if header.version() != 4 {
        return None;
    }
    let mut tuple = FiveTuple::of_ipv4(header, packet.transport());
    if let (ICMP, Some([a, b])) = (tuple.protocol, packet.transport().get(4..6)) {
        let ident = u16::from_be_bytes([*a, *b]);
        (tuple.src_port, tuple.dst_port) = (ident, ident);
    }
    Some(tuple)
}

impl Balancer {
    fn is_service(&self, tuple: &FiveTuple<u32>) -> bool {
        self.services.iter().any(|service| service.takes(tuple))
    }

    fn hash(&self, tuple: &FiveTuple<u32>) -> u64 {
        let source = mix(u64::from(tuple.src));
        match self.hash_of {
            HashOf::Source => source,
            HashOf::Connection => {
                let rest = u64::from(tuple.dst) << 32
                    | u64::from(tuple.src_port) << 16
                    | u64::from(tuple.dst_port);
                mix(source ^ rest ^ u64::from(tuple.protocol) << 56)
            }
        }
    }

    /// Finds a server for which this session's answers differ from those of all other sessions.
    fn assign(
        &mut self,
        tuple: FiveTuple<u32>,
        opening: &mut Opening<'_>,
    ) -> Result<Balanced, Lost> {
        let hash = self.hash(&tuple);
        let mut lost = Lost::NoServer;
        for attempt in 0.. {
            let Some(ticket) = self.servers.choose(hash, attempt) else { break };
            let Some(server_address) = self.servers.of(ticket).map(|server| server.id) else {
                break;
            };
            let before = (tuple.dst, tuple.dst_port);
            // A query keeps its identifier.
            let port = server_address.port.filter(|_| tuple.protocol != ICMP);
            let after = (server_address.addr, port.unwrap_or(tuple.dst_port));
            let translation = Translation::new(tuple.protocol, before, after)
                .map_err(|_| Lost::Untranslatable)?;
            let state = Balanced { translation, slot: ticket.slot, generation: ticket.generation };
            opening.answers.publish(&published(tuple.protocol, before, after));
            let reply = translation.translated(End::Destination, tuple).reversed();
            match opening.answers.answer(&reply) {
                Ok(()) => {
                    self.servers.begin(ticket, true);
                    return Ok(state);
                }
                Err(NoAnswer::Taken) => lost = Lost::Taken,
                Err(NoAnswer::NoRoom) => return Err(Lost::NoRoom),
            }
        }
        Err(lost)
    }

    /// Takes over what another replica has chosen.
    fn take_over(&mut self, words: [u64; 4]) -> Balanced {
        let [before, after, protocol, _] = words;
        if protocol == 0 {
            return Balanced::marked(OTHER);
        }
        let ends = [before, after].map(|word| ((word >> 16) as u32, word as u16));
        let Ok(translation) = Translation::new(protocol as u8, ends[0], ends[1]) else {
            return Balanced::marked(OTHER);
        };
        let port = (protocol != u64::from(ICMP)).then_some(ends[1].1);
        let Some(ticket) = ticket_of(&self.servers, ends[1].0, port) else {
            return Balanced { translation, ..Balanced::marked(UNKNOWN) };
        };
        self.servers.begin(ticket, false);
        Balanced { translation, slot: ticket.slot | ELSEWHERE, generation: ticket.generation }
    }

    #[cold]
    fn without_server(session: &mut Session<'_, Balanced>) -> Option<Lost> {
        match session.state.slot {
            OTHER => None,
            SPOOFED => {
                session.end = true;
                Some(Lost::Spoofed)
            }
            _ => {
                session.end = true;
                Some(Lost::Removed)
            }
        }
    }
}

/// Words for the other direction's thread.
fn published(protocol: u8, before: (u32, u16), after: (u32, u16)) -> [u64; 3] {
    let [before, after] =
        [before, after].map(|(addr, port)| u64::from(addr) << 16 | u64::from(port));
    [before, after, u64::from(protocol)]
}

impl PerSession for Balancer {
    type State = Balanced;

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut Balanced,
    ) -> Result<(), Reason> {
        if let Some(words) = opening.answers.published() {
            *state = self.take_over(words);
            return Ok(());
        }
        *state = Balanced::marked(OTHER);
        let Some(tuple) = tuple_of(packet).filter(|_| !opening.related) else { return Ok(()) };
        let for_service = self.is_service(&tuple);
        if self.is_service(&tuple.reversed())
            || for_service && opening.direction == Direction::Reply
        {
            // Else a host that spoofs a service's address could keep a client from it.
            *state = Balanced::marked(SPOOFED);
        } else if for_service {
            *state = self.assign(tuple, opening)?;
        }
        Ok(())
    }

    #[inline]
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, Balanced>) -> Verdict {
        let (direction, related) = (session.direction, session.related);
        match self.servers.of(session.state.ticket()) {
            Some(server) => {
                server.packets += 1;
                server.bytes += packet.len() as u64;
            }
            None if session.state.slot == UNKNOWN => {}
            None => {
                return Balancer::without_server(session).map_or(Verdict::Pass, Verdict::drop);
            }
        }
        let translation = &session.state.translation;
        if translation.apply(packet, End::Destination, direction, related).is_err() {
            return Verdict::drop(Lost::Untranslatable);
        }
        if direction == Direction::Forward {
            // Routes are looked up by the annotation.
            packet.set_dst_ip(translation.after().0.to_be_bytes());
        }
        Verdict::Pass
    }

    fn without(&mut self, packet: &mut Packet) -> Verdict {
        // A fragment has no ports to compare.
        let dst = match Ipv4Header::view(packet.network()) {
            Ok((header, _)) if header.version() == 4 => header.dst(),
            _ => return Verdict::Pass,
        };
        if self.services.iter().any(|service| service.addr == dst) {
            return Verdict::drop(Lost::NoSession);
        }
        Verdict::Pass
    }

    fn close(&mut self, state: &Balanced, _why: Ended) {
        if state.slot < UNKNOWN {
            self.servers.end(state.ticket(), state.is_here());
        }
    }
}
