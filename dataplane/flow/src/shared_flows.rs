//! Shared state of the threads that serve the two directions of one connection.
//!
//! Each thread has a session table of its own, which no other thread looks at. The thread that
//! sees a connection first *publishes* a record of it here, under its key; when the table of
//! another thread misses, it looks here, and finds that record. Each then *holds* the record: its
//! session keeps a [`RecordId`]. From then on packets touch the record's atomics (when it was
//! last active, the state of its protocol, words), never this table. The last holder to leave frees
//! the record. (T. Barbette's thesis, 2018, section 5.5.6, has a hash table with a lock per bucket
//! in this place, and reads it as rarely.)
//!
//! # Keys
//!
//! Both directions must come to the same key. Where no address is translated, the key has the two
//! ends in an order that does not depend on the direction; so if the first packets of both
//! directions come at the same instant, both threads publish one key, and exactly one of them wins.
//! Where addresses are translated, the translating thread publishes the record, gives it the
//! reply's key with [`SharedFlows::also`], and only then lets the packet go; if another record has
//! that key it takes another port. A key must also contain whatever distinguishes connections that
//! share a five-tuple (a VLAN, a level of sessions).
//!
//! # Bounds
//!
//! All memory is reserved at the start and never grows; a page of it costs nothing before it is
//! touched. Per record: 64 bytes, 8 for what packets touch, 17 of the index, 8 per word, and 48
//! once it has a second key. No operation waits for another thread: if a thread stops anywhere, the
//! others go on, short of the one slot and record that it has in hand. An operation starts again
//! only because another one has succeeded in the same bucket, and looks at no more than the 30
//! slots of one bucket. When there is no record or no slot left, the result is [`Published::Full`],
//! and the connection has no shared record.
//!
//! # How it works
//!
//! A key's hash names a bucket. **A bucket changes only by its header**, one word with a version
//! and a bit per visible slot. To publish, a thread
//!
//! 1. pops a free record and writes key, words and control word (one holder; the next generation);
//! 2. claims a free slot of the bucket and writes the entry into it. No other thread sees it yet;
//! 3. loads the header, and compares the keys of all visible slots with its own;
//! 4. if none is equal, sets the slot's bit and increments the version, by one compare-exchange
//!    against the header of step 3. If that fails the bucket has changed: again from 3.
//!
//! *Exactly one record wins*: of two threads with equal keys, one changes the header first. The
//! other's compare-exchange then fails, or it loaded the header later; either way it does step 3
//! with the winner's bit set, finds the key, gives its own slot and record back, and holds the
//! winner's.
//!
//! To find, a thread does step 3; if no key is equal and the header is unchanged after that, there
//! was none. If one is equal *and the header is unchanged*, the slot was visible all the time
//! between, so the record was in the life that the slot stands for when its control word and key
//! were read: nothing half-written and nothing of another life was compared. Then the thread adds
//! one to the number of holders by a compare-exchange against that control word. The word has the
//! generation in it, so this fails if the record was used anew since. So a thread either holds a
//! live record with its key, or nothing; it never holds another one even for a moment, and so
//! exactly one call of [`SharedFlows::leave`] returns that it was the last.
//!
//! To leave, a thread subtracts one from the number of holders. The thread that makes it 0 has
//! ended the life of the record: no thread can hold it any more, and others skip its entries (the
//! same key can be published anew at once, in another record). Then it clears the bits of its
//! entries, gives the slots back, and then the record, in this order; so a thread that meets a
//! later owner of a slot or record finds the header changed.
//!
//! # Limits
//!
//! Counters repeat: a generation after 2^46 lives of one record, a bucket's version after 2^34
//! changes, the free list's count after 2^32. Only a thread that stops between two certain
//! instructions for exactly a multiple of that many changes, a minute at the very least, takes an
//! old value for a new one. And a [`RecordId`] is plain: a thread that uses one after leaving sees
//! the atomics of another connection (never memory that is not its own).
//!
//! Each memory ordering is justified at its place; `tests/loom.rs` has loom try all interleavings
//! and all values that weak memory allows.

mod index;
mod key;
mod memory;
mod record;
mod sides;
#[cfg(all(test, not(loom)))]
mod tests;
mod words;

use thruway_sync::atomic::Ordering;

use crate::fcb::Direction;
use crate::hash::Hasher;
use crate::tcp::Side;
pub use index::RECORDS_MAX;
use index::{BucketRef, Header, Index, Which};
pub use key::{KEY_WORDS, Key, RecordId};
use record::{Control, Hold, Records};
use sides::Sides;

/// The outcome of publishing. The caller holds the record, its own or another one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Published {
    /// The record is the caller's.
    Mine(RecordId),
    /// Another thread had published the key.
    Theirs(RecordId),
    /// There is no record, or no slot in the key's bucket, left.
    Full,
}

/// Why a record got no second key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AlsoError {
    /// Another connection has this key.
    #[error("another connection has this key: take another port or address")]
    Taken,
    /// There is no slot in the key's bucket left.
    #[error("there is no room for this key: take another port or address")]
    Full,
    /// The record has a second key.
    #[error("the connection has a second key, and there can be no third")]
    Second,
}

/// Why the shared flow records cannot be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SharedFlowsError {
    /// More records than can be numbered.
    #[error("{records} shared connections are more than the {RECORDS_MAX} that there can be")]
    TooMany {
        /// Records asked for.
        records: u32,
    },
    /// The system has no such memory.
    #[error(
        "there is no memory for {records} shared connections with {words} words each: ask for fewer"
    )]
    NoMemory {
        /// Records asked for.
        records: u32,
        /// Words of each.
        words: usize,
    },
}

/// The content under a key in its bucket.
enum Lookup {
    /// A record with this key, alive a moment ago.
    Equal(u32, Control),
    /// None, while this was the header.
    Absent(Header),
}

/// The outcome of entering a key.
enum Entered {
    Yes,
    /// This record has the key.
    Equal(u32, Control),
    Full,
}

/// The records of all connections that two threads serve, found by their keys. Share it by `Arc`.
pub struct SharedFlows {
    hasher: Hasher,
    index: Index,
    records: Records,
    /// Where connections are TCP's.
    sides: Option<Sides>,
}

impl SharedFlows {
    /// Room for `records` connections at a time, with `words` words each to publish. The seed
    /// should be random ([`crate::hash`] says why).
    pub fn new(
        records: u32,
        words: usize,
        seed: [u64; 2],
    ) -> Result<SharedFlows, SharedFlowsError> {
        if records > RECORDS_MAX {
            return Err(SharedFlowsError::TooMany { records });
        }
        let none = SharedFlowsError::NoMemory { records, words };
        Ok(SharedFlows {
            hasher: Hasher::new(seed),
            index: Index::new(records).ok_or(none)?,
            records: Records::new(records, words).ok_or(none)?,
            sides: None,
        })
    }

    /// The same, with room for the numbers of both sides of each ([`crate::tcp`]).
    pub fn following_tcp(self, records: u32) -> Result<SharedFlows, SharedFlowsError> {
        let words = self.words_each();
        let sides = Sides::new(records as usize);
        let sides = sides.ok_or(SharedFlowsError::NoMemory { records, words })?;
        Ok(SharedFlows { sides: Some(sides), ..self })
    }

    /// Publishes a connection under a key, with the words that are known so far and the time (in
    /// ticks of the caller's) when it was active, in state 0. If another thread has published the
    /// key, that record is returned instead. The caller holds the record that it gets.
    ///
    /// Panics unless `words` are as many as were said to [`SharedFlows::new`].
    pub fn publish(&self, key: &Key, words: &[u64], now: u32) -> Published {
        if let Some(record) = self.records.draft(key, words, now) {
            if let Some(sides) = &self.sides {
                sides.clear(record);
            }
            loop {
                match self.enter(record, Which::First, key) {
                    Entered::Yes => return Published::Mine(RecordId(record)),
                    Entered::Full => break,
                    Entered::Equal(theirs, control) => match self.records.hold(theirs, control) {
                        Hold::Held => {
                            self.records.withdraw(record);
                            return Published::Theirs(RecordId(theirs));
                        }
                        // It has ended meanwhile: the key is free again.
                        Hold::Gone => {}
                        Hold::TooManyHolders => break,
                    },
                }
            }
            self.records.withdraw(record);
        }
        // A key that is there needs no room.
        self.find(key).map_or(Published::Full, Published::Theirs)
    }

    /// Gives a record that the caller holds a second key, that of a reply with translated
    /// addresses. A second key equal to the record's own first key is no error.
    pub fn also(&self, record: RecordId, key: &Key) -> Result<(), AlsoError> {
        let RecordId(record) = record;
        if !self.records.write_second(record, key) {
            return Err(AlsoError::Second);
        }
        let result = match self.enter(record, Which::Second, key) {
            Entered::Yes => return Ok(()),
            Entered::Equal(equal, _) if equal == record => Ok(()),
            Entered::Equal(..) => Err(AlsoError::Taken),
            Entered::Full => Err(AlsoError::Full),
        };
        self.records.erase_second(record);
        result
    }

    /// The record that has this key as its first or its second. The caller holds it, until it
    /// calls [`SharedFlows::leave`].
    pub fn find(&self, key: &Key) -> Option<RecordId> {
        let bucket = self.index.bucket(self.hasher.hash(key));
        loop {
            match self.lookup(bucket, key) {
                Lookup::Absent(_) => return None,
                Lookup::Equal(record, control) => match self.records.hold(record, control) {
                    Hold::Held => return Some(RecordId(record)),
                    // It has ended meanwhile; another may have the key now.
                    Hold::Gone => {}
                    // There are fewer threads than that: a holder did not leave.
                    Hold::TooManyHolders => return None,
                },
            }
        }
    }

    /// The words of the record: as published, or as written since.
    #[inline]
    pub fn words(&self, record: RecordId) -> impl ExactSizeIterator<Item = u64> + '_ {
        // Relaxed: as published, they were acquired when the caller found the record. `word` reads
        // later ones in their order.
        self.records.words_of(record.0).iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// Says that the connection is active now, in ticks.
    #[inline]
    pub fn touch(&self, record: RecordId, now: u32) {
        let [seen, _] = self.records.live(record.0);
        // Relaxed: a time orders nothing else. Only a change is written, so that the two threads
        // fight over the cache line once in a tick and not for each packet.
        if seen.load(Ordering::Relaxed) != now {
            seen.store(now, Ordering::Relaxed);
        }
    }

    /// When the connection was last active, in ticks.
    #[inline]
    pub fn last_seen(&self, record: RecordId) -> u32 {
        self.records.live(record.0)[0].load(Ordering::Relaxed)
    }

    /// The state of the connection's protocol, 0 at first.
    #[inline]
    pub fn state(&self, record: RecordId) -> u32 {
        // Acquire: sees the other thread's writes before its change of the state.
        self.records.live(record.0)[1].load(Ordering::Acquire)
    }

    /// Changes the state to the function's result, and returns the previous one. If another thread
    /// changes it meanwhile the function is called again; if nothing is to change, nothing is
    /// written.
    #[inline]
    pub fn update_state(&self, record: RecordId, mut next: impl FnMut(u32) -> u32) -> u32 {
        let [_, state] = self.records.live(record.0);
        // Release: to the Acquire of a reader of the new state.
        let change = |now| Some(next(now)).filter(|new| *new != now);
        let result = state.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        result.unwrap_or_else(|unchanged| unchanged)
    }

    /// Gives up one hold on a record. True if it was the last: the keys are gone, and the record
    /// is free.
    pub fn leave(&self, record: RecordId) -> bool {
        let RecordId(record) = record;
        let Some(remains) = self.records.leave(record) else { return false };
        let keys = [(remains.second, Which::Second), (true, Which::First)];
        for (_, which) in keys.into_iter().filter(|(has, _)| *has) {
            let bucket = self.index.bucket(self.hasher.hash(&self.records.key(record, which)));
            bucket.remove(bucket.entry(record, which));
        }
        self.records.push(record);
        true
    }

    /// Makes a key visible that is written in its record, unless there is an equal one.
    fn enter(&self, record: u32, which: Which, key: &Key) -> Entered {
        let bucket = self.index.bucket(self.hasher.hash(key));
        let Some(slot) = bucket.claim(bucket.entry(record, which)) else { return Entered::Full };
        loop {
            match self.lookup(bucket, key) {
                Lookup::Equal(equal, control) => {
                    bucket.release(slot);
                    return Entered::Equal(equal, control);
                }
                Lookup::Absent(header) if bucket.commit(header, slot) => return Entered::Yes,
                // The bucket has changed: perhaps it has the key now.
                Lookup::Absent(_) => {}
            }
        }
    }

    /// Looks for a key in its bucket, until no change comes between.
    #[inline]
    fn lookup(&self, bucket: BucketRef<'_>, key: &Key) -> Lookup {
        loop {
            let header = bucket.header();
            let equal = bucket.entries(header).find_map(|entry| {
                let (record, which) = bucket.read(entry)?;
                Some((record, self.records.matches(record, which, key)?))
            });
            if bucket.is_unchanged(header) {
                return equal.map_or(Lookup::Absent(header), |(record, control)| {
                    Lookup::Equal(record, control)
                });
            }
        }
    }

    /// The numbers of a side of a record that the caller holds.
    #[inline]
    pub fn side(&self, record: RecordId, direction: Direction) -> Side {
        self.sides.as_ref().map_or_else(Side::default, |sides| sides.get(record, direction))
    }

    /// Records the numbers of a side.
    pub fn set_side(&self, record: RecordId, direction: Direction, side: &Side) {
        if let Some(sides) = &self.sides {
            sides.set(record, direction, side);
        }
    }

    /// The same where only numbers have changed.
    #[inline]
    pub fn set_numbers(&self, record: RecordId, direction: Direction, side: &Side) {
        if let Some(sides) = &self.sides {
            sides.set_numbers(record, direction, side);
        }
    }
}
