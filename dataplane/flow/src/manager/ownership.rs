//! Which thread serves each direction of a session: bits of the session's own word, and of the
//! first word of the record that it shares with other threads. [`crate::manager::owners`] has the
//! rules by which they change.

use crate::fcb::Direction;
use crate::life::{Life, Phase};
use crate::manager::level::LevelState;
use crate::manager::thread_set::ThreadSet;
use crate::plan::Serving;
use crate::shared_flows::RecordId;

/// Of a session's word for its shared record: the number of its record and 1.
pub(super) const RECORD: u32 = (1 << 28) - 1;
/// It is a remote entry.
pub(super) const REMOTE: u32 = 1 << 29;
/// Its forward packets are served here.
const FORWARD_HERE: u32 = 1 << 30;
/// Its reply packets are.
const REPLY_HERE: u32 = 1 << 31;
/// Both.
pub(super) const HERE: u32 = FORWARD_HERE | REPLY_HERE;

/// Of a record's first word: the thread that serves forward packets and 1, and where it begins.
const FORWARD_OWNER: (u64, u32) = (0xfff << 4, 4);
/// The same of reply packets.
const REPLY_OWNER: (u64, u32) = (0xfff << 16, 16);
/// Both fields.
pub(super) const OWNERS: u64 = FORWARD_OWNER.0 | REPLY_OWNER.0;

/// Of a session's word: packets of this direction are served here.
#[inline]
pub(super) fn here(direction: Direction) -> u32 {
    if direction == Direction::Forward { FORWARD_HERE } else { REPLY_HERE }
}

fn owner_field(direction: Direction) -> (u64, u32) {
    if direction == Direction::Forward { FORWARD_OWNER } else { REPLY_OWNER }
}

/// Bits of a record's first word: this thread serves both directions.
pub(super) fn both_owned_by(me: u16) -> u64 {
    let me = u64::from(me) + 1;
    me << FORWARD_OWNER.1 | me << REPLY_OWNER.1
}

/// The owners in a record's first word, where each thread is replaced by another one.
pub(super) fn owners_replaced(word: u64, by: impl Fn(u16) -> Option<u16>) -> u64 {
    let of = |direction| {
        let (_, shift) = owner_field(direction);
        let owner = owner_of(word, direction).and_then(&by);
        owner.map_or(0, |owner| (u64::from(owner) + 1) << shift)
    };
    of(Direction::Forward) | of(Direction::Reply)
}

/// The owner of a direction, in a record's first word.
pub(super) fn owner_of(word: u64, direction: Direction) -> Option<u16> {
    let (field, shift) = owner_field(direction);
    ((word & field) >> shift).checked_sub(1).map(|thread| thread as u16)
}

/// What a thread has of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it, or the half that its first packet began.
    Main,
    /// The other half.
    Rest,
    /// Nothing but the thread that serves it.
    Remote,
}

/// The thread set, and the entry that the present batch came to.
#[derive(Clone, Copy)]
pub(super) struct HandoffContext<'a> {
    pub threads: &'a ThreadSet,
    pub entry: u32,
}

impl HandoffContext<'_> {
    /// The other thread that serves this direction of a session with this first word, and can have
    /// its packets.
    pub fn other(&self, word: u64, direction: Direction) -> Option<u16> {
        let owner = owner_of(word, direction)?;
        (owner != self.threads.me() && self.threads.reaches(self.entry, owner)).then_some(owner)
    }
}

impl LevelState {
    /// Whether another thread serves the session, and no function here.
    pub(super) fn is_remote(&self, index: u32) -> bool {
        self.extra.shared_flows.is_some_and(|at| self.pool.extra(index, at) & REMOTE != 0)
    }

    /// A session's word, where other threads may serve it.
    #[inline]
    pub(super) fn word(&self, index: u32) -> Option<u32> {
        self.extra.shared_flows.map(|at| self.pool.extra(index, at))
    }

    /// Records the owner of a session, by bits of its word.
    pub(super) fn set_served(&mut self, index: u32, bits: u32) {
        if let Some(at) = self.extra.shared_flows {
            let word = self.pool.extra_mut(index, at);
            self.remotes -= u32::from(*word & REMOTE != 0);
            *word = *word & RECORD | bits;
            self.remotes += u32::from(bits & REMOTE != 0);
        }
    }

    /// The same of one that was taken over from a configuration where `old` was its word.
    pub(super) fn served_as(&self, old: Option<u32>) -> u32 {
        match old {
            Some(word) if self.serving != Serving::Any => word & !RECORD,
            _ => HERE,
        }
    }

    /// Whether a session is another thread's, and how it began here: by its word, of a level
    /// that other threads may serve too.
    pub(super) fn part(&self, index: u32) -> Part {
        match self.word(index) {
            Some(word) if word & REMOTE != 0 => Part::Remote,
            Some(word) if self.serving != Serving::Any && word & FORWARD_HERE == 0 => Part::Rest,
            _ => Part::Main,
        }
    }

    /// Which directions of a session are served here.
    pub(super) fn served_bits(&self, index: u32) -> u32 {
        self.word(index).map_or(HERE, |word| word & HERE)
    }

    /// Adds the directions that a session's other half served elsewhere, by that one's bits.
    pub(super) fn add_served(&mut self, at: u32, bits: u32) {
        if let Some(word) = self.word(at) {
            self.set_served(at, word & !RECORD | bits & HERE);
        }
    }

    /// The bits of a record's first word for the thread that begins a session.
    pub(super) fn owner_bits(&self, me: u16) -> u64 {
        match self.serving {
            Serving::Any => 0,
            Serving::EachDirection => (u64::from(me) + 1) << FORWARD_OWNER.1,
            Serving::Both => both_owned_by(me),
        }
    }

    /// The thread that serves a direction of a session: this one, if there was none.
    pub(super) fn claim(&self, record: RecordId, direction: Direction, me: u16) -> u16 {
        let Some(shared_flows) = &self.shared_flows else { return me };
        let (field, shift) = owner_field(direction);
        let claimed = shared_flows.claim(record, 0, field, (u64::from(me) + 1) << shift);
        owner_of(claimed, direction).unwrap_or(me)
    }

    /// Called after the end of a session with forward packets that were served here: makes its
    /// record unfindable, so the other threads end theirs, too.
    pub(super) fn release_ownership(&self, index: u32) {
        let Some(at) = self.extra.shared_flows else { return };
        let word = self.pool.extra(index, at);
        if self.serving != Serving::Any && word & FORWARD_HERE != 0 {
            self.retire(index);
        }
    }

    /// A remote entry becomes a session of this thread.
    pub(super) fn take_in(&mut self, index: u32, life: Life) {
        self.counts.created += 1;
        self.embryonic += u32::from(life.phase() == Phase::New);
        self.pool.head_mut(index).state = life.0;
    }
}
