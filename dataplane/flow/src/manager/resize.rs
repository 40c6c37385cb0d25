//! The sessions of a router with another number of threads.
//!
//! Each of its threads has an *heir*, which goes on with its sessions. Several may have the same
//! one. A session that two threads served has a half in each: where both come to one thread, the
//! half that the first packet began goes on with both directions, and the functions of the other
//! half are told of its end. Entries for sessions of other threads do not go over: they come again
//! with the next packet. Where one thread served all, the sessions are published, so that all find
//! them.

use crate::manager::flow_manager::Manager;
use crate::manager::heirs::Heirs;
use crate::manager::ownership::Part;
use crate::manager::takeover::{Move, no_records, take_state};

/// Which sessions are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Those that are whole, and the halves that first packets began. To be taken of all threads
    /// before the rest.
    Main,
    /// The other halves.
    Rest,
}

impl Taken {
    fn is(self, part: Part) -> bool {
        match part {
            Part::Main => self == Taken::Main,
            Part::Rest => self == Taken::Rest,
            Part::Remote => false,
        }
    }
}

impl Manager {
    /// As [`Manager::take_over`], of a thread of a router with more or fewer of them; the heir of
    /// that thread takes its sessions. To be called for all old threads with [`Taken::Main`], then
    /// for all with [`Taken::Rest`], then [`Manager::rejoin`]. Returns the number of sessions
    /// that began to be here.
    pub fn inherit(
        &mut self,
        old: &mut Manager,
        node_of: impl Fn(u32) -> Option<u32>,
        (heirs, taken): (&Heirs<'_>, Taken),
    ) -> u64 {
        old.forget_short_cuts();
        let pairs = self.alike_levels(old);
        let mut new_records = no_records(old);
        let mut moved = 0;
        for pair in &pairs {
            let mapping = Move::new((&self.plan, &old.plan), (*pair, &pairs), &node_of);
            moved += self.inherit_level(old, (&mapping, heirs, taken), &mut new_records);
            if taken == Taken::Main {
                self.levels[pair.1].counts += old.levels[pair.0].counts;
            }
        }
        moved
    }

    fn inherit_level(
        &mut self,
        old: &mut Manager,
        (mapping, heirs, taken): (&Move, &Heirs<'_>, Taken),
        new_records: &mut [Vec<u32>],
    ) -> u64 {
        let mut moved = 0;
        for index in 0..old.levels[mapping.from].pool.extent() {
            let before = &old.levels[mapping.from];
            if !before.pool.is_linked(index) {
                continue;
            }
            let part = before.part(index);
            let state = &mut self.levels[mapping.to];
            if part != Part::Remote
                && let Some(at) = state.pool.find(before.pool.key(index)).index()
            {
                // The other half is here, or another thread's session of several flows; or this
                // one, which was taken in the first pass.
                state.add_served(at, before.served_bits(index));
                new_records[mapping.from][index as usize] = at + 1;
                continue;
            }
            if taken.is(part) {
                let place = self.take_new(old, (mapping, Some(heirs)), index, new_records);
                moved += u64::from(place.is_some());
            }
        }
        moved
    }

    /// Takes functions' state back from `new`, which took it by [`Manager::inherit`] and never
    /// ran. Sessions are as they were. To be called in the same order. Returns of how many.
    pub fn take_back(
        &mut self,
        new: &mut Manager,
        node_of: impl Fn(u32) -> Option<u32>,
        taken: Taken,
    ) -> u64 {
        let pairs = self.alike_levels(new);
        let mut moved = 0;
        for pair in &pairs {
            let mapping = Move::new((&self.plan, &new.plan), (*pair, &pairs), &node_of);
            for index in 0..new.levels[mapping.from].pool.extent() {
                let (state, from) = (&mut self.levels[mapping.to], &mut new.levels[mapping.from]);
                if !from.pool.is_linked(index) {
                    continue;
                }
                let here = state.pool.find(from.pool.key(index));
                let is_due = |at: &u32| !here.is_alias() && taken.is(state.part(*at));
                if let Some(at) = here.index().filter(is_due) {
                    take_state((state, at), (from, index), &mapping);
                    moved += 1;
                }
            }
        }
        moved
    }
}
