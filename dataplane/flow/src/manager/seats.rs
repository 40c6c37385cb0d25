//! Which thread serves a session, and what becomes of packets that come to another one.
//!
//! The record of a session in the rendezvous has a *seat* for each direction: the thread that serves
//! it. The first thread that receives a packet of a direction takes its seat (where a function wants
//! both directions in one thread, whoever begins the session takes both), and keeps it until the
//! session ends. A session's word says which seats its own thread has, so a packet that is where it
//! belongs costs one bit more to look at. One that comes to another thread (the sender or the network
//! card moved the flow to another queue) is handed to the thread that has the seat, which classifies
//! it as if it had received it. That other thread keeps a *guest*, a session that no function has
//! opened, so that further packets need no look into the rendezvous's index.
//!
//! # Order
//!
//! Packets that a thread hands to another one go by one ring, and stay in order. When a session has
//! ended a thread may begin the next one under the same key itself, or find that a third one has; it
//! does only once the former server is done with what it was handed ([`Crew::is_under_way`]), and
//! until then hands it more. So no packet overtakes one that the same thread received before. (The
//! guest is what remembers. Where there was no room for it, or a session that serves one direction
//! here ends by itself in this very moment, this is not so.)
//!
//! No packet goes round in a circle: a thread hands a packet to one that serves its session, or did
//! when the packet came. Who has packets of a flow under way does not begin to serve it.

use crate::fcb::{Direction, Fcb};
use crate::life::{Ended, Life, Phase};
use crate::manager::crew::Crew;
use crate::manager::entry::Item;
use crate::manager::level::LevelState;
use crate::manager::meeting::Met;
use crate::manager::reader::Key;
use crate::manager::{Manager, entry};
use crate::plan::{LevelId, Serving};
use crate::rendezvous::RecordId;

/// Of a session's word for the rendezvous: the number of its record and 1.
pub(super) const RECORD: u32 = (1 << 28) - 1;
/// It is a guest.
const GUEST: u32 = 1 << 29;
/// Its forward packets are served here.
const FORWARD_HERE: u32 = 1 << 30;
/// Its reply packets are.
const REPLY_HERE: u32 = 1 << 31;
/// Both.
pub(super) const HERE: u32 = FORWARD_HERE | REPLY_HERE;

/// Of a record's first word: the thread that serves forward packets and 1, and where it begins.
const FORWARD_SEAT: (u64, u32) = (0xfff << 4, 4);
/// The same of reply packets.
const REPLY_SEAT: (u64, u32) = (0xfff << 16, 16);
/// Both fields.
pub(super) const SEATS: u64 = FORWARD_SEAT.0 | REPLY_SEAT.0;

/// Of a session's word: packets of this direction are served here.
#[inline]
pub(super) fn here(direction: Direction) -> u32 {
    if direction == Direction::Forward { FORWARD_HERE } else { REPLY_HERE }
}

fn seat(direction: Direction) -> (u64, u32) {
    if direction == Direction::Forward { FORWARD_SEAT } else { REPLY_SEAT }
}

/// The thread that has the seat of a direction, in a record's first word.
fn seated(word: u64, direction: Direction) -> Option<u16> {
    let (field, shift) = seat(direction);
    ((word & field) >> shift).checked_sub(1).map(|thread| thread as u16)
}

/// The crew, and the entry that the present batch came to.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub crew: &'a Crew,
    pub entry: u32,
}

impl Place<'_> {
    /// The other thread that serves this direction of a session with this first word, and can have
    /// its packets.
    pub fn other(&self, word: u64, direction: Direction) -> Option<u16> {
        let owner = seated(word, direction)?;
        (owner != self.crew.me() && self.crew.reaches(self.entry, owner)).then_some(owner)
    }
}

/// Where a packet is served.
pub(super) enum Served {
    Here,
    /// In another thread; what the packet is to bear.
    There(Fcb),
    /// Nowhere: its session is over.
    Over,
}

impl LevelState {
    /// Whether another thread serves the session, and no function here.
    pub(super) fn is_guest(&self, index: u32) -> bool {
        self.extra.meeting.is_some_and(|at| self.pool.extra(index, at) & GUEST != 0)
    }

    /// A session's word, where other threads may serve it.
    #[inline]
    pub(super) fn word(&self, index: u32) -> Option<u32> {
        self.extra.meeting.map(|at| self.pool.extra(index, at))
    }

    /// Notes who serves a session, by bits of its word.
    pub(super) fn set_served(&mut self, index: u32, bits: u32) {
        if let Some(at) = self.extra.meeting {
            let word = self.pool.extra_mut(index, at);
            self.guests -= u32::from(*word & GUEST != 0);
            *word = *word & RECORD | bits;
            self.guests += u32::from(bits & GUEST != 0);
        }
    }

    /// The same of one that was taken over from a configuration where `old` was its word.
    pub(super) fn served_as(&self, old: Option<u32>) -> u32 {
        match old {
            Some(word) if self.serving != Serving::Any => word & !RECORD,
            _ => HERE,
        }
    }

    /// What the first word of a record has of the thread that begins a session.
    pub(super) fn seats_of(&self, me: u16) -> u64 {
        let me = u64::from(me) + 1;
        match self.serving {
            Serving::Any => 0,
            Serving::EachDirection => me << FORWARD_SEAT.1,
            Serving::Both => me << FORWARD_SEAT.1 | me << REPLY_SEAT.1,
        }
    }

    /// Which thread serves a direction of a session: this one, if nobody did.
    fn claim(&self, record: RecordId, direction: Direction, me: u16) -> u16 {
        let Some(meeting) = &self.meeting else { return me };
        let (field, shift) = seat(direction);
        let claimed = meeting.claim(record, 0, field, (u64::from(me) + 1) << shift);
        seated(claimed, direction).unwrap_or(me)
    }

    /// A session has ended whose forward packets were served here: nobody is to find its record, and
    /// the other threads end theirs, too.
    pub(super) fn rise(&self, index: u32) {
        let Some(at) = self.extra.meeting else { return };
        let word = self.pool.extra(index, at);
        if self.serving != Serving::Any && word & FORWARD_HERE != 0 {
            self.retire(index);
        }
    }

    /// A guest begins to be served here.
    fn take_in(&mut self, index: u32, life: Life) {
        self.counts.created += 1;
        self.embryonic += u32::from(life.phase() == Phase::New);
        self.pool.head_mut(index).state = life.0;
    }
}

impl Manager {
    /// Lets this manager hand packets over to other threads, and take theirs.
    pub fn join_crew(&mut self, crew: Crew) {
        self.crew = Some(crew);
    }

    /// So many packets that thread `from` handed over have been through [`Manager::classify`], and
    /// nothing else since [`Manager::handed`] was `before`.
    pub fn took(&mut self, from: usize, count: usize, before: u64) {
        if let Some(crew) = &mut self.crew {
            crew.took(from, count as u64, crew.handed != before);
        }
    }

    /// Tells a thread of packets that it handed over and that went on, once they have arrived.
    pub fn tell_served(&mut self, from: usize) {
        if let Some(crew) = &mut self.crew {
            crew.tell(from);
        }
    }

    /// So many packets that were to go to a thread did not: there was no room.
    pub fn not_handed(&mut self, to: u16, count: usize) {
        if let Some(crew) = &mut self.crew {
            crew.take_back(to, count as u64);
        }
    }

    /// Packets handed over to other threads.
    pub fn handed(&self) -> u64 {
        self.crew.as_ref().map_or(0, |crew| crew.handed)
    }

    /// Hands a packet to another thread: what it is to bear until then.
    fn hand(&mut self, to: u16) -> Fcb {
        if let Some(crew) = &mut self.crew {
            crew.hand(to);
        }
        self.is_handing = true;
        Fcb::of_thread(to)
    }

    /// The other thread to which packets of a session may be under way.
    fn under_way(&self, level: usize, index: u32) -> Option<u16> {
        let (crew, state) = (self.crew.as_ref()?, &self.levels[level]);
        if state.word(index)? & HERE == HERE {
            return None;
        }
        let (word, _) = state.first_word(index)?;
        let owners = [Direction::Forward, Direction::Reply].map(|way| seated(word, way));
        let is_busy = |owner: &u16| *owner != crew.me() && crew.is_under_way(*owner);
        owners.into_iter().flatten().find(is_busy)
    }

    /// Whether some may be, so that the session has to be remembered.
    pub(super) fn is_under_way(&self, level: usize, index: u32) -> bool {
        self.under_way(level, index).is_some()
    }

    /// Who serves a packet of a session that this thread does not serve, as far as it knows.
    #[cold]
    pub(super) fn seek(
        &mut self,
        (level, index): (usize, u32),
        direction: Direction,
        item: &Item,
    ) -> Served {
        let Some(crew) = &self.crew else { return Served::Here };
        let (me, state) = (crew.me(), &self.levels[level]);
        let Some((word, record)) = state.first_word(index) else { return Served::Here };
        let owner = match seated(word, direction) {
            // An error about a packet is no packet: it takes no seat.
            None if item.related => seated(word, Direction::Forward),
            owner => owner,
        };
        if state.is_retired(index) {
            // What follows packets that are under way goes the same way.
            let other = owner.filter(|owner| *owner != me && crew.reaches(self.entry, *owner));
            let busy = self.under_way(level, index);
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
                self.take_seat(level, index, direction, item);
            }
            return Served::Here;
        }
        if !crew.reaches(self.entry, owner) {
            return Served::Here;
        }
        self.levels[level].pool.head_mut(index).seen = self.now;
        Served::There(self.hand(owner))
    }

    /// Serves a direction of a session from now on.
    fn take_seat(&mut self, level: usize, index: u32, direction: Direction, item: &Item) {
        let state = &mut self.levels[level];
        let Some(at) = state.extra.meeting else { return };
        let was_guest = state.is_guest(index);
        let bits = state.pool.extra(index, at) & HERE | here(direction);
        state.set_served(index, bits);
        if was_guest {
            let life = state.fresh_life(item);
            state.take_in(index, Life(life.0 | state.told(index)));
            state.pool.head_mut(index).leaf = item.leaf;
            self.count_begun(item.leaf);
        }
    }

    /// The other thread that serves packets of a session that was met, if there is one. Takes the
    /// seat if there is none.
    pub(super) fn server(&mut self, level: LevelId, met: &mut Met) -> Option<u16> {
        let state = &self.levels[usize::from(level)];
        let both = state.serving != Serving::EachDirection;
        met.here = if both { HERE } else { here(met.direction) };
        let crew = self.crew.as_ref()?;
        if met.is_mine || state.serving == Serving::Any {
            return None;
        }
        let owner = state.claim(met.record, met.direction, crew.me());
        if owner == crew.me() {
            return None;
        }
        // Where that one cannot have it, it is served here without a seat.
        met.here = 0;
        crew.reaches(self.entry, owner).then_some(owner)
    }

    /// Hands the first packet of another thread's session over, and keeps a guest for the following
    /// ones, if there is room.
    #[cold]
    pub(super) fn host_guest(
        &mut self,
        (level, key): (LevelId, &Key),
        item: &Item,
        met: Met,
        owner: u16,
    ) -> Fcb {
        let state = &mut self.levels[usize::from(level)];
        let life = state.fresh_life(item);
        // Nobody has to go for it.
        let has_room = state.now < state.bounds.sessions_max;
        match has_room.then(|| state.insert_guest(key, life)) {
            Some(Ok(index)) => {
                state.hold(index, &met);
                state.set_served(index, GUEST);
                // It goes when room is needed.
                state.remember(index);
                let head = state.pool.head_mut(index);
                head.seen = self.now;
                head.leaf = item.leaf;
                head.flags |= entry::forward_flag(item, met.direction);
            }
            _ => state.forget(Some(met)),
        }
        self.hand(owner)
    }

    /// Where an error about a session goes that this thread has not met: to who serves packets of its
    /// direction, or the others.
    pub(super) fn server_of_error(&self, level: usize, met: &Met) -> Option<u16> {
        let place = Place { crew: self.crew.as_ref()?, entry: self.entry };
        let word = self.levels[level].word_of(met)?;
        match seated(word, met.direction) {
            Some(_) => place.other(word, met.direction),
            None => place.other(word, Direction::Forward),
        }
    }

    /// Hands an error over, and gives the session's record up.
    pub(super) fn hand_error(&mut self, level: usize, met: Met, owner: u16) -> Fcb {
        self.levels[level].forget(Some(met));
        self.hand(owner)
    }

    /// Counts the end of a session of this thread.
    pub(super) fn note_end(&mut self, level: usize, index: u32, why: Ended) {
        let state = &mut self.levels[level];
        state.rise(index);
        if !state.is_guest(index) {
            let leaf = state.pool.head(index).leaf;
            self.count_ended(leaf, why);
        }
    }
}
