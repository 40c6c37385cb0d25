//! The thread that serves a session, and the treatment of packets that come to another one.
//!
//! A session's shared flow record names an *owner* for each direction: the thread that serves it.
//! The first thread that receives a packet of a direction becomes its owner (if a function wants
//! both directions in one thread, the thread that begins the session takes both), and keeps it
//! until the session ends. A session's word says which directions its own thread owns, so a packet
//! that is in the right thread costs one bit more to look at. One that comes to another thread (the
//! sender or the network card moved the flow to another queue) is handed off to the owner, which
//! classifies it as if it had received it. That other thread keeps a *remote entry*: a session that
//! no function has opened, so that further packets need no lookup of the shared index.
//!
//! # Order
//!
//! Packets that a thread hands off to another one go by one ring, and stay in order. When a session
//! has ended a thread may begin the next one under the same key itself, or find that a third one
//! has; it does only once the former server has processed all handed-off packets
//! ([`ThreadSet::has_in_flight`]), and until then hands off more. So no packet overtakes one that
//! the same thread received before. (The remote entry holds this state. If there was no room for
//! it, or a session that serves one direction here ends in this very moment, order is not
//! guaranteed.)
//!
//! No packet loops: a thread hands a packet off to one that serves its session, or did when the
//! packet came. A thread with packets of a flow in flight does not begin to serve it.

use crate::fcb::{Direction, Fcb};
use crate::life::{Ended, Life};
use crate::manager::flow_manager::Manager;
use crate::manager::ownership::{HERE, HandoffContext, REMOTE, here, owner_of};
use crate::manager::reader::Key;
use crate::manager::shared_records::SharedRecord;
use crate::manager::thread_set::ThreadSet;
use crate::manager::work::{Item, forward_flag};
use crate::plan::{LevelId, Serving};

/// Where a packet is served.
pub(super) enum Served {
    Here,
    /// In another thread; the word that the packet carries.
    There(Fcb),
    /// Nowhere: its session is over.
    Over,
}

impl Manager {
    /// Lets this manager hand packets over to other threads, and take theirs.
    pub fn join_threads(&mut self, threads: ThreadSet) {
        self.threads = Some(threads);
    }

    /// So many packets that thread `from` handed over have been through [`Manager::classify`], and
    /// nothing else since [`Manager::handed`] was `before`.
    pub fn took(&mut self, from: usize, count: usize, before: u64) {
        if let Some(threads) = &mut self.threads {
            threads.took(from, count as u64, threads.handed != before);
        }
    }

    /// Informs a thread of packets that it handed over and that went on, once they have arrived.
    pub fn report_served(&mut self, from: usize) {
        if let Some(threads) = &mut self.threads {
            threads.report_served(from);
        }
    }

    /// So many packets that were to go to a thread did not: there was no room.
    pub fn not_handed(&mut self, to: u16, count: usize) {
        if let Some(threads) = &mut self.threads {
            threads.take_back(to, count as u64);
        }
    }

    /// Packets handed over to other threads.
    pub fn handed(&self) -> u64 {
        self.threads.as_ref().map_or(0, |threads| threads.handed)
    }

    /// Hands a packet off to another thread: returns the word that it carries until then.
    fn hand(&mut self, to: u16) -> Fcb {
        if let Some(threads) = &mut self.threads {
            threads.hand(to);
        }
        self.is_handing = true;
        Fcb::of_thread(to)
    }

    /// The other thread that packets of a session may be in flight to.
    fn in_flight_owner(&self, level: usize, index: u32) -> Option<u16> {
        let (threads, state) = (self.threads.as_ref()?, &self.levels[level]);
        if state.word(index)? & HERE == HERE {
            return None;
        }
        let (word, _) = state.first_word(index)?;
        let owners =
            [Direction::Forward, Direction::Reply].map(|direction| owner_of(word, direction));
        let is_busy = |owner: &u16| *owner != threads.me() && threads.has_in_flight(*owner);
        owners.into_iter().flatten().find(is_busy)
    }

    /// Whether some may be, so that the session has to be remembered.
    pub(super) fn has_in_flight(&self, level: usize, index: u32) -> bool {
        self.in_flight_owner(level, index).is_some()
    }

    /// The owner of a packet's session that this thread does not serve, as far as it knows.
    #[cold]
    pub(super) fn seek(
        &mut self,
        (level, index): (usize, u32),
        direction: Direction,
        item: &Item,
    ) -> Served {
        let Some(threads) = &self.threads else { return Served::Here };
        let (me, state) = (threads.me(), &self.levels[level]);
        let Some((word, record)) = state.first_word(index) else { return Served::Here };
        let owner = match owner_of(word, direction) {
            // An error about a packet is no packet: it makes no owner.
            None if item.related => owner_of(word, Direction::Forward),
            owner => owner,
        };
        if state.is_retired(index) {
            // Packets that follow others in flight take the same path.
            let other = owner.filter(|owner| *owner != me && threads.reaches(self.entry, *owner));
            let busy = self.in_flight_owner(level, index);
            return match busy.map(|busy| other.unwrap_or(busy)) {
                Some(other) => Served::There(self.hand(other)),
                None => Served::Over,
            };
        }
        let owner = match owner {
            Some(owner) => owner,
            None if item.related => return Served::Here,
            None => state.claim(record, direction, me),
        };
        if owner == me {
            if !item.related {
                self.take_ownership(level, index, direction, item);
            }
            return Served::Here;
        }
        if !threads.reaches(self.entry, owner) {
            return Served::Here;
        }
        self.levels[level].pool.head_mut(index).seen = self.now;
        Served::There(self.hand(owner))
    }

    /// Serves a direction of a session from now on.
    fn take_ownership(&mut self, level: usize, index: u32, direction: Direction, item: &Item) {
        let state = &mut self.levels[level];
        let Some(at) = state.extra.shared_flows else { return };
        let was_remote = state.is_remote(index);
        let bits = state.pool.extra(index, at) & HERE | here(direction);
        state.set_served(index, bits);
        if was_remote {
            let life = state.fresh_life(item);
            state.take_in(index, Life(life.0 | state.life_bits(index)));
            state.pool.head_mut(index).leaf = item.leaf;
            self.count_begun(item.leaf);
        }
    }

    /// The other thread that owns a direction of a shared session, if there is one. Otherwise takes
    /// ownership.
    pub(super) fn server(&mut self, level: LevelId, shared: &mut SharedRecord) -> Option<u16> {
        let state = &self.levels[usize::from(level)];
        let both = state.serving != Serving::EachDirection;
        shared.here = if both { HERE } else { here(shared.direction) };
        let threads = self.threads.as_ref()?;
        if shared.is_mine || state.serving == Serving::Any {
            return None;
        }
        let owner = state.claim(shared.record, shared.direction, threads.me());
        if owner == threads.me() {
            return None;
        }
        // Where that one cannot have it, it is served here without an owner.
        shared.here = 0;
        threads.reaches(self.entry, owner).then_some(owner)
    }

    /// Hands the first packet of another thread's session off, and keeps a remote entry for the
    /// following ones, if there is room.
    #[cold]
    pub(super) fn add_remote(
        &mut self,
        (level, key): (LevelId, &Key),
        item: &Item,
        shared: SharedRecord,
        owner: u16,
    ) -> Fcb {
        let state = &mut self.levels[usize::from(level)];
        let life = state.fresh_life(item);
        // Admission must not require an eviction.
        let has_room = state.now < state.bounds.sessions_max;
        match has_room.then(|| state.insert_remote(key, life)) {
            Some(Ok(index)) => {
                state.hold(index, &shared);
                state.set_served(index, REMOTE);
                // It goes when room is needed.
                state.remember(index);
                let head = state.pool.head_mut(index);
                head.seen = self.now;
                head.leaf = item.leaf;
                head.flags |= forward_flag(item, shared.direction);
            }
            _ => state.forget(Some(shared)),
        }
        self.hand(owner)
    }

    /// Where an error about a session goes that this thread does not know: to the owner of
    /// its direction, or the others.
    pub(super) fn server_of_error(&self, level: usize, shared: &SharedRecord) -> Option<u16> {
        let context = HandoffContext { threads: self.threads.as_ref()?, entry: self.entry };
        let word = self.levels[level].word_of(shared)?;
        match owner_of(word, shared.direction) {
            Some(_) => context.other(word, shared.direction),
            None => context.other(word, Direction::Forward),
        }
    }

    /// Hands an error over, and gives the session's record up.
    pub(super) fn hand_error(&mut self, level: usize, shared: SharedRecord, owner: u16) -> Fcb {
        self.levels[level].forget(Some(shared));
        self.hand(owner)
    }

    /// Counts the end of a session of this thread.
    pub(super) fn note_end(&mut self, level: usize, index: u32, why: Ended) {
        let state = &mut self.levels[level];
        state.release_ownership(index);
        if !state.is_remote(index) {
            let leaf = state.pool.head(index).leaf;
            self.count_ended(leaf, why);
        }
    }
}
