//! A new session that finds no free port ends an embryonic one.

use thruway_element::{Answers, PerSession};
use thruway_flow::Ended;
use zerocopy::FromBytes;

use super::embryonic::{Embryonic, Entry};
use super::kind::Kind;
use super::mapping::Mappings;
use super::ports::{Asker, NoPort, Outside};
use super::sessions::{NatDrop, Translator};
use super::state::NatSession;

/// Most embryonic sessions that are looked at for one new session.
const TRIES: usize = 16;
/// Most embryonic sessions of blocks that are looked at for one new session.
const BLOCK_SESSIONS: u32 = 4096;

/// Parts of a port, of which each session that uses it has as many as any other; their rest is
/// below one port for [`BLOCK_SESSIONS`].
const PART: u64 = 1 << 32;

/// Ports of a block's list that embryonic sessions alone use. (A block has fewer than 65,536.)
fn embryonic_ports(embryonic: &Embryonic, mappings: Option<&Mappings>, list: u32) -> u32 {
    let uses = |entry: &Entry| match mappings.map(|mappings| mappings.get(entry.source)) {
        Some(mapping) if mapping.embryonic == mapping.uses => mapping.uses,
        Some(_) => 0,
        None => 1,
    };
    // A port that n sessions use stands in the list n times.
    let parts = embryonic.iter(list).map(uses).filter(|uses| *uses > 0);
    (parts.map(|uses| PART / u64::from(uses)).sum::<u64>().div_ceil(PART)) as u32
}

impl Translator {
    /// Lists a session that has just got its port, if it is one of TCP.
    pub(super) fn list_embryonic(
        &mut self,
        state: &mut NatSession,
        (kind, outside): (Kind, Outside),
        session: u32,
    ) {
        if kind != Kind::Tcp {
            return;
        }
        let list = self.ports.list(outside.address_index, outside.port);
        if !self.embryonic.entries.has_room()
            && let Some(ticket) = self.embryonic.oldest(list)
        {
            self.take_oldest(ticket);
        }
        let (source, port) = (state.source, outside.port);
        let entry = Entry { session, source, port, list, ..Entry::default() };
        if let Some(ticket) = self.embryonic.add(entry) {
            state.ticket = ticket;
            if let Some(mappings) = &mut self.mappings {
                mappings.get_mut(source).embryonic += 1;
            }
        }
    }

    /// A session is embryonic no longer, or has ended.
    #[cold]
    pub(super) fn unlist(&mut self, state: &NatSession) {
        // Tickets of other tables say nothing here.
        if state.tables == self.tables {
            self.unlist_of(state.ticket, (state.source, state.from.after().1));
        }
    }

    fn unlist_of(&mut self, ticket: u32, (source, port): (u32, u16)) {
        if self.embryonic.remove(ticket, (source, port))
            && let Some(mappings) = &mut self.mappings
        {
            mappings.get_mut(source).embryonic -= 1;
        }
    }

    /// Takes the oldest session out of its list.
    fn take_oldest(&mut self, ticket: u32) -> Entry {
        let entry = *self.embryonic.entries.get(ticket - 1);
        self.unlist_of(ticket, (entry.source, entry.port));
        entry
    }

    /// A port of a pool; if none is free, that of an embryonic session.
    pub(super) fn take_port(
        &mut self,
        pool: usize,
        asker: &Asker,
        answers: &mut dyn Answers,
    ) -> Result<Outside, NatDrop> {
        let mut taken = self.ports.take(pool, asker);
        if taken == Err(NoPort::None) && asker.kind == Kind::Tcp && self.evict(pool, asker, answers)
        {
            taken = self.ports.take(pool, asker);
        }
        taken.map_err(NatDrop::from)
    }

    /// Ends embryonic sessions, the oldest first, until one port is free that the asker may have.
    pub(super) fn evict(&mut self, pool: usize, asker: &Asker, answers: &mut dyn Answers) -> bool {
        if self.ports.blocks().is_some() {
            return self.evict_block(pool, asker, answers);
        }
        let mut tries = TRIES;
        for address_index in self.ports.addresses_for(pool, asker.host).tried() {
            for list in self.ports.lists(address_index, asker) {
                while let Some(ticket) = self.embryonic.oldest(list) {
                    if tries == 0 {
                        return false;
                    }
                    tries -= 1;
                    if self.evict_oldest(ticket, answers) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Ends all sessions of a block, if they are embryonic; says whether any ended. Of a block
    /// only its host gets ports, so it would not help another host to end some of them.
    fn evict_block(&mut self, pool: usize, asker: &Asker, answers: &mut dyn Answers) -> bool {
        let addresses = self.ports.addresses_for(pool, asker.host);
        let Translator { ports, embryonic, mappings, .. } = self;
        let mut looks = BLOCK_SESSIONS;
        let may_go = |list, used| {
            let len = embryonic.len(list);
            // Each of its ports has at least one session.
            if len < used || len > looks {
                return false;
            }
            looks -= len;
            embryonic_ports(embryonic, mappings.as_ref(), list) == used
        };
        let Some(list) = ports.blocks_mut().and_then(|blocks| blocks.victim(addresses, may_go))
        else {
            return false;
        };
        let before = self.embryonic.evicted;
        while let Some(ticket) = self.embryonic.oldest(list) {
            self.evict_oldest(ticket, answers);
        }
        self.embryonic.evicted > before
    }

    /// Ends a list's oldest session, if it is embryonic; says whether a port is free by that.
    fn evict_oldest(&mut self, ticket: u32, answers: &mut dyn Answers) -> bool {
        let source = self.embryonic.entries.get(ticket - 1).source;
        let mapping = self.mappings.as_ref().map(|mappings| *mappings.get(source));
        let entry = self.take_oldest(ticket);
        // Where others need the port its end would be for nothing.
        if mapping.is_some_and(|mapping| mapping.embryonic != mapping.uses) {
            return false;
        }
        let (tables, mut ended) = (self.tables, None);
        let is_evicted = answers.evict(entry.session, &mut |scratch| {
            let Ok(state) = NatSession::mut_from_bytes(scratch) else { return false };
            let is_it = (state.ticket, state.tables) == (ticket, tables)
                && (state.source, state.from.after().1) == (entry.source, entry.port);
            if is_it {
                // Its packets in flight are dropped, and its end frees nothing again.
                ended = Some(std::mem::take(state));
            }
            is_it
        });
        let Some(state) = ended.filter(|_| is_evicted) else { return false };
        self.embryonic.evicted += 1;
        self.close(&state, Ended::Evicted);
        mapping.is_none_or(|mapping| mapping.uses == 1)
    }
}
