//! Sessions with packets in several threads: each has a session of its own, and all hold one record
//! of the level's shared flow table: the others' state, and the owner of each direction
//! ([`crate::manager::ownership`]).

use std::sync::Arc;

use crate::fcb::Direction;
use crate::life::Life;
use crate::manager::heirs::Heirs;
use crate::manager::level::{self, LevelState};
use crate::manager::ownership::{HERE, HandoffContext, OWNERS, RECORD, both_owned_by};
use crate::manager::reader::Key;
use crate::manager::settings::Settings;
use crate::plan::{Plan, ScratchSlot, Serving};
use crate::shared_flows::{self, KEY_WORDS, Published, RecordId, SharedFlows, SharedFlowsError};

/// In a record's first word: source and destination are exchanged in the key of the packet that
/// opened the session.
const FORWARD_EXCHANGED: u64 = 1 << 0;
/// The same of the second key, as replies bring it.
const REPLY_EXCHANGED: u64 = 1 << 1;
// Bits 4 to 27 are the owners.
/// From here on a bit per function: it has published its words.
const PUBLISHED_SHIFT: u32 = 32;
/// In a record's state, above the bits of [`Life`]: the connection is over, and another has begun.
const RETIRED: u32 = 1 << 8;
/// Where functions' words begin.
const FIRST_WORD: usize = 1;
/// Most words of one function.
pub(super) const WORDS_MAX: usize = 4;

/// One table of shared flow records per level with sessions that may have packets in several
/// threads.
pub type SharedFlowsByLevel = Vec<Option<Arc<SharedFlows>>>;

/// The shared records of a plan, for all its threads: each may have its bound of sessions.
///
/// # Errors
/// There is no memory for so many.
pub fn shared_flows_of(
    plan: &Plan,
    settings: &Settings,
    threads: usize,
) -> Result<SharedFlowsByLevel, SharedFlowsError> {
    let levels = plan.levels.iter().map(|level| {
        let all = settings.bounds.sessions_max.saturating_mul(threads as u32);
        let records = all.min(shared_flows::RECORDS_MAX);
        let words = FIRST_WORD + level.shared_words;
        let make = || {
            let all = SharedFlows::new(records, words, settings.seeds)?;
            let all = if level.follows_tcp() { all.following_tcp(records)? } else { all };
            Ok(Arc::new(all))
        };
        level.meets().then(make).transpose()
    });
    levels.collect()
}

/// The shared state that a new session gets from its shared flow record.
pub(super) struct SharedRecord {
    pub record: RecordId,
    /// The direction in which its first packet goes.
    pub direction: Direction,
    /// Whether this thread has just published it.
    pub is_mine: bool,
    /// Which directions this thread serves, by bits of a session's word.
    pub here: u32,
}

impl SharedRecord {
    fn theirs(record: RecordId, direction: Direction) -> SharedRecord {
        SharedRecord { record, direction, is_mine: false, here: 0 }
    }
}

/// Most ended connections under one key that a new one replaces.
const TRIES_MAX: usize = 4;

/// The packet that begins a session.
pub(super) struct Begin<'a> {
    /// In ticks.
    pub now: u32,
    pub tcp_flags: u8,
    /// Ticks after which a session of each life is over.
    pub limits: &'a [u32; 256],
    /// Where it came, if packets can be handed to other threads.
    pub context: Option<HandoffContext<'a>>,
}

impl Begin<'_> {
    /// Whether a record is of a connection that is over for this packet.
    fn is_past(&self, shared_flows: &SharedFlows, record: RecordId) -> bool {
        let life = Life(shared_flows.state(record) as u8);
        let idle = self.now.wrapping_sub(shared_flows.last_seen(record));
        let late = idle >= self.limits[usize::from(life.0)] && idle < u32::MAX / 2;
        late || life.begins_anew(self.tcp_flags)
    }
}

fn padded(key: &[u32]) -> shared_flows::Key {
    let mut padded = [0; KEY_WORDS];
    padded.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    padded
}

/// In which direction a packet with this key goes, of the session that has the record.
fn direction(
    shared_flows: &SharedFlows,
    record: RecordId,
    key: &shared_flows::Key,
    exchanged: bool,
) -> Direction {
    let word = shared_flows.word(record, 0);
    let turned = if shared_flows.is_first_key(record, key) {
        exchanged != (word & FORWARD_EXCHANGED != 0)
    } else {
        exchanged == (word & REPLY_EXCHANGED != 0)
    };
    if turned { Direction::Reply } else { Direction::Forward }
}

impl LevelState {
    /// The record that this session shares with the one of the other thread.
    #[inline]
    pub(super) fn record(&self, index: u32) -> Option<(&SharedFlows, RecordId)> {
        let (shared_flows, at) = (self.shared_flows.as_deref()?, self.extra.shared_flows?);
        let number = (self.pool.extra(index, at) & RECORD).checked_sub(1)?;
        Some((shared_flows, RecordId::from_index(number)))
    }

    /// Publishes a session that begins here, or finds the one that another thread has begun. One
    /// that is over is replaced: the other thread may not have noticed yet.
    pub(super) fn find_or_publish(
        &self,
        key: &Key,
        exchanged: bool,
        begin: &Begin<'_>,
    ) -> Option<SharedRecord> {
        let shared_flows = self.shared_flows.as_deref()?;
        let key = padded(key.words());
        let mut words = [0; FIRST_WORD + 256];
        let owners = begin.context.map_or(0, |context| self.owner_bits(context.threads.me()));
        words[0] = owners | if exchanged { FORWARD_EXCHANGED } else { 0 };
        let len = shared_flows.words_each().min(words.len());
        for _ in 0..TRIES_MAX {
            let record = match shared_flows.find(&key) {
                Some(record) => record,
                None => match shared_flows.publish(&key, &words[..len], begin.now) {
                    Published::Mine(record) => {
                        let direction = Direction::Forward;
                        return Some(SharedRecord {
                            is_mine: true,
                            ..SharedRecord::theirs(record, direction)
                        });
                    }
                    Published::Theirs(record) => record,
                    Published::Full => return None,
                },
            };
            let direction = direction(shared_flows, record, &key, exchanged);
            // The owner decides, and has recorded the packets in flight.
            let other = begin
                .context
                .and_then(|context| context.other(shared_flows.word(record, 0), direction));
            if other.is_some() || !begin.is_past(shared_flows, record) {
                return Some(SharedRecord::theirs(record, direction));
            }
            shared_flows.update_state(record, |state| state | RETIRED);
            shared_flows.retire(record);
            shared_flows.leave(record);
        }
        None
    }

    /// Whether another thread has begun a new connection in this session's place.
    #[inline]
    pub(super) fn is_retired(&self, index: u32) -> bool {
        let of = |(shared_flows, record): (&SharedFlows, RecordId)| {
            shared_flows.state(record) & RETIRED != 0
        };
        self.shared_flows.is_some() && self.record(index).is_some_and(of)
    }

    /// Finds the one that another thread has begun.
    pub(super) fn find_shared(&self, key: &Key, exchanged: bool) -> Option<SharedRecord> {
        let shared_flows = self.shared_flows.as_deref()?;
        let key = padded(key.words());
        let record = shared_flows.find(&key)?;
        Some(SharedRecord::theirs(record, direction(shared_flows, record, &key, exchanged)))
    }

    /// Remembers the record of a new session.
    pub(super) fn hold(&mut self, index: u32, shared: &SharedRecord) {
        if let Some(at) = self.extra.shared_flows {
            let word = self.pool.extra_mut(index, at);
            *word = *word & !RECORD | (shared.record.index() + 1);
        }
    }

    /// The first word of a session's record, and the record.
    pub(super) fn first_word(&self, index: u32) -> Option<(u64, RecordId)> {
        let (shared_flows, record) = self.record(index)?;
        Some((shared_flows.word(record, 0), record))
    }

    /// The first word of a shared record.
    pub(super) fn word_of(&self, shared: &SharedRecord) -> Option<u64> {
        Some(self.shared_flows.as_deref()?.word(shared.record, 0))
    }

    /// The bits of [`Life`] from all holders of a session's record.
    pub(super) fn life_bits(&self, index: u32) -> u8 {
        self.record(index).map_or(0, |(shared_flows, record)| shared_flows.state(record) as u8)
    }

    /// A session of this thread's is over, for all that hold its record.
    pub(super) fn retire(&self, index: u32) {
        if let Some((shared_flows, record)) = self.record(index) {
            // The order matters: a thread that finds the record unfindable knows that it is over.
            shared_flows.update_state(record, |state| state | RETIRED);
            shared_flows.retire(record);
        }
    }

    /// Gives up a record that no session has come to hold.
    pub(super) fn forget(&self, shared: Option<SharedRecord>) {
        if let (Some(shared_flows), Some(shared)) = (&self.shared_flows, shared) {
            shared_flows.leave(shared.record);
        }
    }

    /// Gives up the record, if there is one.
    pub(super) fn leave(&mut self, index: u32) {
        if let Some((shared_flows, record)) = self.record(index) {
            shared_flows.leave(record);
        }
    }

    /// Publishes to the other thread that this session is active, and its life.
    #[inline]
    pub(super) fn publish_life(&self, index: u32, now: u32, life: Life) {
        if let Some((shared_flows, record)) = self.record(index) {
            shared_flows.touch(record, now);
            let bits = u32::from(life.0);
            if shared_flows.state(record) & bits != bits {
                shared_flows.update_state(record, |state| state | bits);
            }
        }
    }

    /// The life of a session as both threads know it, and when either saw a packet last.
    #[inline]
    pub(super) fn both(&self, index: u32) -> (Life, u32) {
        let head = self.pool.head(index);
        let (life, seen) = (Life(head.state), head.seen);
        match self.record(index) {
            None => (life, seen),
            Some((shared_flows, record)) => {
                let other = shared_flows.last_seen(record);
                let newer = other.wrapping_sub(seen) < u32::MAX / 2;
                let bits = life.0 | shared_flows.state(record) as u8;
                (Life(bits), if newer { other } else { seen })
            }
        }
    }

    /// The same, with the session's word and whether another thread has begun a new connection in
    /// its place: all that a packet asks, in one look.
    #[inline]
    pub(super) fn snapshot(&self, index: u32) -> (Life, u32, u32, bool) {
        let head = self.pool.head(index);
        let word = self.word(index).unwrap_or(HERE);
        let (Some(shared_flows), Some(number)) =
            (self.shared_flows.as_deref(), (word & RECORD).checked_sub(1))
        else {
            return (Life(head.state), head.seen, word, false);
        };
        let record = RecordId::from_index(number);
        let (other, state) = (shared_flows.last_seen(record), shared_flows.state(record));
        let newer = other.wrapping_sub(head.seen) < u32::MAX / 2;
        let seen = if newer { other } else { head.seen };
        (Life(head.state | state as u8), seen, word, state & RETIRED != 0)
    }

    /// Publishes a session again that a new configuration has taken over from `old`, with what
    /// those functions published that are there in both. The session that the other thread began is
    /// left to [`LevelState::rejoin`].
    pub(super) fn publish_again(
        &mut self,
        at: u32,
        (old, index): (&LevelState, u32),
        (scratch_slots, heirs): (&[(ScratchSlot, ScratchSlot)], Option<&Heirs>),
    ) {
        let Some(shared_flows) = self.shared_flows.clone() else { return };
        let Some((before, record)) = old.record(index) else {
            if let Some(heirs) = heirs {
                self.publish_alone(at, (old, index), heirs);
            }
            return;
        };
        let key = padded(self.pool.key(at));
        if !before.is_first_key(record, &key) {
            return;
        }
        let bits_set = before.word(record, 0);
        let mut words = [0; FIRST_WORD + 256];
        let len = shared_flows.words_each().min(words.len());
        let owners = bits_set & OWNERS;
        let owners = heirs.map_or(owners, |heirs| heirs.owners(owners));
        words[0] = bits_set & FORWARD_EXCHANGED | owners;
        for (from, to) in scratch_slots {
            if bits_set >> PUBLISHED_SHIFT & 1 << from.bit == 0 {
                continue;
            }
            words[0] |= 1 << (PUBLISHED_SHIFT + u32::from(to.bit));
            for n in 0..from.demand.shared_words.min(to.demand.shared_words) {
                let [from, to] = [from, to]
                    .map(|scratch_slot| FIRST_WORD + usize::from(scratch_slot.shared_at) + n);
                if from < before.words_each() && to < len {
                    words[to] = before.word(record, from);
                }
            }
        }
        let (life, seen) = old.both(index);
        let record = match shared_flows.publish(&key, &words[..len], seen) {
            Published::Mine(record) | Published::Theirs(record) => record,
            Published::Full => return,
        };
        self.hold(at, &SharedRecord::theirs(record, Direction::Forward));
        self.publish_life(at, seen, life);
    }

    /// Publishes a session that no other thread knew, as its thread was the only one: it serves
    /// both directions.
    fn publish_alone(&mut self, at: u32, (old, index): (&LevelState, u32), heirs: &Heirs) {
        let Some(shared_flows) = self.shared_flows.clone() else { return };
        let key = padded(self.pool.key(at));
        let is_exchanged = old.pool.head(index).flags & level::FORWARD_EXCHANGED != 0;
        let mut words = [0; FIRST_WORD + 256];
        let len = shared_flows.words_each().min(words.len());
        words[0] = if is_exchanged { FORWARD_EXCHANGED } else { 0 };
        if self.serving != Serving::Any {
            words[0] |= both_owned_by(heirs.me());
        }
        let (life, seen) = old.both(index);
        // No other one has the key: one thread's sessions have one each.
        let Published::Mine(record) = shared_flows.publish(&key, &words[..len], seen) else {
            return;
        };
        self.hold(at, &SharedRecord::theirs(record, Direction::Forward));
        self.publish_life(at, seen, life);
    }

    /// Has sessions that were taken over and hold no record find that of the other thread.
    pub(super) fn rejoin(&mut self) {
        let (Some(shared_flows), Some(extra)) =
            (self.shared_flows.clone(), self.extra.shared_flows)
        else {
            return;
        };
        for index in 0..self.pool.extent() {
            if !self.pool.is_linked(index) || self.pool.extra(index, extra) & RECORD != 0 {
                continue;
            }
            if let Some(record) = shared_flows.find(&padded(self.pool.key(index))) {
                self.hold(index, &SharedRecord::theirs(record, Direction::Reply));
            }
        }
    }

    /// Lets the other thread find the session by its second key; false if another has it.
    pub(super) fn also(&self, index: u32, key: &[u32], exchanged: bool) -> bool {
        let Some((shared_flows, record)) = self.record(index) else { return true };
        let bit = if exchanged { REPLY_EXCHANGED } else { 0 };
        // Before the key: a thread that finds the record by the key must see it.
        shared_flows.add_to_word(record, 0, bit);
        let is_done = shared_flows.also(record, &padded(key)).is_ok();
        if !is_done {
            shared_flows.take_from_word(record, 0, bit);
        }
        is_done
    }

    /// The words that a function published for a session, by its `bit` and the place of its words.
    pub(super) fn published(&self, index: u32, bit: u32, at: usize) -> Option<[u64; WORDS_MAX]> {
        let (shared_flows, record) = self.record(index)?;
        if shared_flows.word(record, 0) & u64::from(bit) << PUBLISHED_SHIFT == 0 {
            return None;
        }
        let first = FIRST_WORD + at;
        let len = shared_flows.words_each().saturating_sub(first).min(WORDS_MAX);
        Some(std::array::from_fn(
            |n| if n < len { shared_flows.word(record, first + n) } else { 0 },
        ))
    }

    /// Publishes the words of a function for a session; the first [`WORDS_MAX`] of them.
    pub(super) fn publish(&self, index: u32, bit: u32, at: usize, words: &[u64]) {
        let Some((shared_flows, record)) = self.record(index) else { return };
        let first = FIRST_WORD + at;
        let len = shared_flows.words_each().saturating_sub(first).min(WORDS_MAX);
        for (n, word) in words.iter().take(len).enumerate() {
            shared_flows.set_word(record, first + n, *word);
        }
        shared_flows.add_to_word(record, 0, u64::from(bit) << PUBLISHED_SHIFT);
    }
}
