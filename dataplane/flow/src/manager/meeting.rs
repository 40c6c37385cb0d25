//! Sessions with packets in several threads: each has a session of its own, and all hold one record
//! of the level's rendezvous, where they find what the others know, and who serves them
//! ([`crate::manager::seats`]).

use std::sync::Arc;

use crate::fcb::Direction;
use crate::life::Life;
use crate::manager::level::LevelState;
use crate::manager::reader::Key;
use crate::manager::seats::{HERE, Place, RECORD, SEATS};
use crate::manager::state::At;
use crate::manager::{Manager, Settings};
use crate::plan::{Plan, Room};
use crate::rendezvous::{self, KEY_WORDS, Published, RecordId, Rendezvous, RendezvousError};

/// In a record's first word: source and destination stand the other way round in the key of the
/// packet that opened the session.
const FORWARD_EXCHANGED: u64 = 1 << 0;
/// The same of the second key, as replies bring it.
const REPLY_EXCHANGED: u64 = 1 << 1;
// Bits 4 to 27 are the seats.
/// From here on a bit per function: it has published its words.
const PUBLISHED_SHIFT: u32 = 32;
/// In a record's state, above the bits of [`Life`]: the connection is over, and another has begun.
const RETIRED: u32 = 1 << 8;
/// Where functions' words begin.
const FIRST_WORD: usize = 1;
/// Most words of one function.
const WORDS_MAX: usize = 4;

/// One rendezvous per level whose sessions may have packets in several threads.
pub type Meetings = Vec<Option<Arc<Rendezvous>>>;

/// Those of a plan, for all its threads: each may have its bound of sessions.
///
/// # Errors
/// There is no memory for so many.
pub fn meetings(
    plan: &Plan,
    settings: &Settings,
    threads: usize,
) -> Result<Meetings, RendezvousError> {
    let levels = plan.levels.iter().map(|level| {
        let all = settings.bounds.sessions_max.saturating_mul(threads as u32);
        let records = all.min(rendezvous::RECORDS_MAX);
        let words = FIRST_WORD + level.shared_words;
        let make = || {
            let all = Rendezvous::new(records, words, settings.seeds)?;
            let all = if level.follows_tcp() { all.following_tcp(records)? } else { all };
            Ok(Arc::new(all))
        };
        level.meets().then(make).transpose()
    });
    levels.collect()
}

/// What a new session finds out at the rendezvous.
pub(super) struct Met {
    pub record: RecordId,
    /// The direction in which its first packet goes.
    pub direction: Direction,
    /// Whether this thread has just published it.
    pub is_mine: bool,
    /// Which directions this thread serves, by bits of a session's word.
    pub here: u32,
}

impl Met {
    fn theirs(record: RecordId, direction: Direction) -> Met {
        Met { record, direction, is_mine: false, here: 0 }
    }
}

/// Most connections under one key, each over, that a new one meets.
const MEET_TRIES: usize = 4;

/// The packet that begins a session.
pub(super) struct Begin<'a> {
    /// In ticks.
    pub now: u32,
    pub tcp_flags: u8,
    /// Ticks after which a session of each life is over.
    pub limits: &'a [u32; 256],
    /// Where it came, if packets can be handed to other threads.
    pub place: Option<Place<'a>>,
}

impl Begin<'_> {
    /// Whether a record is of a connection that is over for this packet.
    fn is_past(&self, meeting: &Rendezvous, record: RecordId) -> bool {
        let life = Life(meeting.state(record) as u8);
        let idle = self.now.wrapping_sub(meeting.last_seen(record));
        let late = idle >= self.limits[usize::from(life.0)] && idle < u32::MAX / 2;
        late || life.begins_anew(self.tcp_flags)
    }
}

fn padded(key: &[u32]) -> rendezvous::Key {
    let mut padded = [0; KEY_WORDS];
    padded.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    padded
}

/// In which direction a packet with this key goes, of the session that has the record.
fn direction(
    meeting: &Rendezvous,
    record: RecordId,
    key: &rendezvous::Key,
    exchanged: bool,
) -> Direction {
    let word = meeting.word(record, 0);
    let turned = if meeting.is_first_key(record, key) {
        exchanged != (word & FORWARD_EXCHANGED != 0)
    } else {
        exchanged == (word & REPLY_EXCHANGED != 0)
    };
    if turned { Direction::Reply } else { Direction::Forward }
}

impl LevelState {
    /// The record that this session's other half may hold, too.
    #[inline]
    pub(super) fn record(&self, index: u32) -> Option<(&Rendezvous, RecordId)> {
        let (meeting, at) = (self.meeting.as_deref()?, self.extra.meeting?);
        let number = (self.pool.extra(index, at) & RECORD).checked_sub(1)?;
        Some((meeting, RecordId::from_index(number)))
    }

    /// Publishes a session that begins here, or finds the one that another thread has begun. One
    /// that is over makes way: its other half may not have noticed yet.
    pub(super) fn meet(&self, key: &Key, exchanged: bool, begin: &Begin<'_>) -> Option<Met> {
        let meeting = self.meeting.as_deref()?;
        let key = padded(key.words());
        let mut words = [0; FIRST_WORD + 256];
        let seats = begin.place.map_or(0, |place| self.seats_of(place.crew.me()));
        words[0] = seats | if exchanged { FORWARD_EXCHANGED } else { 0 };
        let len = meeting.words_each().min(words.len());
        for _ in 0..MEET_TRIES {
            let record = match meeting.find(&key) {
                Some(record) => record,
                None => match meeting.publish(&key, &words[..len], begin.now) {
                    Published::Mine(record) => {
                        let direction = Direction::Forward;
                        return Some(Met { is_mine: true, ..Met::theirs(record, direction) });
                    }
                    Published::Theirs(record) => record,
                    Published::Full => return None,
                },
            };
            let direction = direction(meeting, record, &key, exchanged);
            // Who serves it decides, and has noticed what is still under way.
            let other =
                begin.place.and_then(|place| place.other(meeting.word(record, 0), direction));
            if other.is_some() || !begin.is_past(meeting, record) {
                return Some(Met::theirs(record, direction));
            }
            meeting.update_state(record, |state| state | RETIRED);
            meeting.retire(record);
            meeting.leave(record);
        }
        None
    }

    /// Whether another thread has begun a new connection in this session's place.
    #[inline]
    pub(super) fn is_retired(&self, index: u32) -> bool {
        let of = |(meeting, record): (&Rendezvous, RecordId)| meeting.state(record) & RETIRED != 0;
        self.meeting.is_some() && self.record(index).is_some_and(of)
    }

    /// Finds the one that another thread has begun.
    pub(super) fn find_met(&self, key: &Key, exchanged: bool) -> Option<Met> {
        let meeting = self.meeting.as_deref()?;
        let key = padded(key.words());
        let record = meeting.find(&key)?;
        Some(Met::theirs(record, direction(meeting, record, &key, exchanged)))
    }

    /// Remembers the record of a new session.
    pub(super) fn hold(&mut self, index: u32, met: &Met) {
        if let Some(at) = self.extra.meeting {
            let word = self.pool.extra_mut(index, at);
            *word = *word & !RECORD | (met.record.index() + 1);
        }
    }

    /// The first word of a session's record, and the record.
    pub(super) fn first_word(&self, index: u32) -> Option<(u64, RecordId)> {
        let (meeting, record) = self.record(index)?;
        Some((meeting.word(record, 0), record))
    }

    /// The first word of a record that was met.
    pub(super) fn word_of(&self, met: &Met) -> Option<u64> {
        Some(self.meeting.as_deref()?.word(met.record, 0))
    }

    /// The bits of [`Life`] that all who hold a session's record have told.
    pub(super) fn told(&self, index: u32) -> u8 {
        self.record(index).map_or(0, |(meeting, record)| meeting.state(record) as u8)
    }

    /// A session of this thread's is over, for all that hold its record.
    pub(super) fn retire(&self, index: u32) {
        if let Some((meeting, record)) = self.record(index) {
            // In this order: who finds that the record cannot be found knows that it is over.
            meeting.update_state(record, |state| state | RETIRED);
            meeting.retire(record);
        }
    }

    /// Gives up a record that no session has come to hold.
    pub(super) fn forget(&self, met: Option<Met>) {
        if let (Some(meeting), Some(met)) = (&self.meeting, met) {
            meeting.leave(met.record);
        }
    }

    /// Gives up the record, if there is one.
    pub(super) fn leave(&mut self, index: u32) {
        if let Some((meeting, record)) = self.record(index) {
            meeting.leave(record);
        }
    }

    /// Tells the other half that this one is active, and what its packets have told.
    #[inline]
    pub(super) fn tell(&self, index: u32, now: u32, life: Life) {
        if let Some((meeting, record)) = self.record(index) {
            meeting.touch(record, now);
            let bits = u32::from(life.0);
            if meeting.state(record) & bits != bits {
                meeting.update_state(record, |state| state | bits);
            }
        }
    }

    /// What is known of a session by both halves, and when either was seen last.
    #[inline]
    pub(super) fn both(&self, index: u32) -> (Life, u32) {
        let head = self.pool.head(index);
        let (life, seen) = (Life(head.state), head.seen);
        match self.record(index) {
            None => (life, seen),
            Some((meeting, record)) => {
                let other = meeting.last_seen(record);
                let newer = other.wrapping_sub(seen) < u32::MAX / 2;
                let bits = life.0 | meeting.state(record) as u8;
                (Life(bits), if newer { other } else { seen })
            }
        }
    }

    /// The same, with the session's word and whether another thread has begun a new connection in
    /// its place: all that a packet asks, in one look.
    #[inline]
    pub(super) fn look(&self, index: u32) -> (Life, u32, u32, bool) {
        let head = self.pool.head(index);
        let word = self.word(index).unwrap_or(HERE);
        let (Some(meeting), Some(number)) =
            (self.meeting.as_deref(), (word & RECORD).checked_sub(1))
        else {
            return (Life(head.state), head.seen, word, false);
        };
        let record = RecordId::from_index(number);
        let (other, state) = (meeting.last_seen(record), meeting.state(record));
        let newer = other.wrapping_sub(head.seen) < u32::MAX / 2;
        let seen = if newer { other } else { head.seen };
        (Life(head.state | state as u8), seen, word, state & RETIRED != 0)
    }

    /// Publishes a session again that a new configuration has taken over from `old`, with what
    /// those functions published that are there in both. The half that the other thread began is
    /// left to [`LevelState::meet_again`].
    pub(super) fn publish_again(
        &mut self,
        at: u32,
        (old, index): (&LevelState, u32),
        rooms: &[(&Room, &Room)],
    ) {
        let (Some(meeting), Some((before, record))) = (self.meeting.clone(), old.record(index))
        else {
            return;
        };
        let key = padded(self.pool.key(at));
        if !before.is_first_key(record, &key) {
            return;
        }
        let said = before.word(record, 0);
        let mut words = [0; FIRST_WORD + 256];
        let len = meeting.words_each().min(words.len());
        words[0] = said & (FORWARD_EXCHANGED | SEATS);
        for (from, to) in rooms {
            if said >> PUBLISHED_SHIFT & 1 << from.bit == 0 {
                continue;
            }
            words[0] |= 1 << (PUBLISHED_SHIFT + u32::from(to.bit));
            for n in 0..from.demand.shared_words.min(to.demand.shared_words) {
                let [from, to] =
                    [from, to].map(|room| FIRST_WORD + usize::from(room.shared_at) + n);
                if from < before.words_each() && to < len {
                    words[to] = before.word(record, from);
                }
            }
        }
        let (life, seen) = old.both(index);
        let record = match meeting.publish(&key, &words[..len], seen) {
            Published::Mine(record) | Published::Theirs(record) => record,
            Published::Full => return,
        };
        self.hold(at, &Met::theirs(record, Direction::Forward));
        self.tell(at, seen, life);
    }

    /// Has sessions that were taken over and hold no record find the one of their other half.
    pub(super) fn meet_again(&mut self) {
        let (Some(meeting), Some(extra)) = (self.meeting.clone(), self.extra.meeting) else {
            return;
        };
        for index in 0..self.pool.extent() {
            if !self.pool.is_linked(index) || self.pool.extra(index, extra) & RECORD != 0 {
                continue;
            }
            if let Some(record) = meeting.find(&padded(self.pool.key(index))) {
                self.hold(index, &Met::theirs(record, Direction::Reply));
            }
        }
    }

    /// Lets the other thread find the session by its second key; false if another has it.
    pub(super) fn also(&self, index: u32, key: &[u32], exchanged: bool) -> bool {
        let Some((meeting, record)) = self.record(index) else { return true };
        let bit = if exchanged { REPLY_EXCHANGED } else { 0 };
        // Before the key: who finds the record by it has to know.
        meeting.add_to_word(record, 0, bit);
        let is_done = meeting.also(record, &padded(key)).is_ok();
        if !is_done {
            meeting.take_from_word(record, 0, bit);
        }
        is_done
    }
}

impl Manager {
    /// What the function published for the session in the thread that serves its other direction.
    pub fn published(&self, at: &At) -> Option<[u64; 4]> {
        let state = &self.levels[usize::from(at.level)];
        let (meeting, record) = state.record(at.index)?;
        let said = u64::from(at.opened_bit()) << PUBLISHED_SHIFT;
        if meeting.word(record, 0) & said == 0 {
            return None;
        }
        let first = FIRST_WORD + at.shared_at();
        let len = meeting.words_each().saturating_sub(first).min(WORDS_MAX);
        Some(std::array::from_fn(|n| if n < len { meeting.word(record, first + n) } else { 0 }))
    }

    /// Publishes what the other direction's thread has to know of the session.
    pub fn publish(&mut self, at: &At, words: &[u64]) {
        let state = &self.levels[usize::from(at.level)];
        let Some((meeting, record)) = state.record(at.index) else { return };
        let first = FIRST_WORD + at.shared_at();
        let len = meeting.words_each().saturating_sub(first).min(WORDS_MAX);
        for (n, word) in words.iter().take(len).enumerate() {
            meeting.set_word(record, first + n, *word);
        }
        meeting.add_to_word(record, 0, u64::from(at.opened_bit()) << PUBLISHED_SHIFT);
    }
}
