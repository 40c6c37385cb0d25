//! A new session that finds no free port ends an embryonic one.

use thruway_element::{Answers, PerSession};
use thruway_flow::Ended;
use zerocopy::FromBytes;

use super::embryonic::Entry;
use super::kind::Kind;
use super::ports::{Asker, NoPort, Outside};
use super::sessions::{Bad, Translator};
use super::state::State;

/// Most embryonic sessions that are looked at for one new session.
const TRIES: usize = 16;

impl Translator {
    /// Lists a session that has just got its port, if it is one of TCP.
    pub(super) fn list_embryonic(
        &mut self,
        state: &mut State,
        (kind, outside): (Kind, Outside),
        session: u32,
    ) {
        if kind != Kind::Tcp {
            return;
        }
        let list = self.ports.list(outside.place, outside.port);
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
    pub(super) fn unlist(&mut self, state: &State) {
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
    ) -> Result<Outside, Bad> {
        let mut taken = self.ports.take(pool, asker);
        if taken == Err(NoPort::None) && asker.kind == Kind::Tcp && self.evict(pool, asker, answers)
        {
            taken = self.ports.take(pool, asker);
        }
        taken.map_err(Bad::from)
    }

    /// Ends embryonic sessions, the oldest first, until one port is free that the asker may have.
    pub(super) fn evict(&mut self, pool: usize, asker: &Asker, answers: &mut dyn Answers) -> bool {
        let mut tries = TRIES;
        for place in self.ports.places(pool, asker.host).tried() {
            for list in self.ports.lists(place, asker) {
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
            let Ok(state) = State::mut_from_bytes(scratch) else { return false };
            let is_it = (state.ticket, state.tables) == (ticket, tables)
                && (state.source, state.from.after().1) == (entry.source, entry.port);
            if is_it {
                // Its packets that are on their way go no further, and its end frees nothing again.
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
