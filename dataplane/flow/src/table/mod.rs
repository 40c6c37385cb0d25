//! The sessions of one level, as one thread keeps them: records and an index of their keys.
//!
//! A [`Pool`] never stalls: records lie in segments that are never copied, and the index grows by
//! one bucket at a time (`index.rs`). It never exceeds its bound.
//!
//! A record is a [`Head`] of 12 bytes, the key, a second key where the shape has one, extra words,
//! and the scratch of functions. The second key finds the same record: the tuple of replies behind
//! address translation. It shares the last word (protocol and definition) with the first.
//!
//! Memory, at most, for `sessions_max` sessions: each has its record ([`Pool::record_bytes`]) and,
//! per key, 65 / 4.5 = 14.4 bytes of index, or 65 / 5.5 = 11.8 where there are second keys. So
//! without scratch and extra words, for keys of four words: 32 + 14.4 = 46.4 bytes, with a second
//! key 40 + 2 * 11.8 = 63.6. [`Pool::memory_max_bytes`] adds what does not depend on the number of
//! sessions, about 35 kB, and the lists of segments.

mod access;
mod index;
mod line;
mod lookup;
mod records;
mod shape;

pub use index::{LINE_SLOTS, Load};
pub use records::Head;
pub use shape::{KEY_WORDS_MAX, SCRATCH_LEN_MAX, SESSIONS_MAX, Shape};

use crate::hash::Hasher;
use index::Index;
use records::Records;

/// Of an entry of the index: by the second key.
const ALIAS: u32 = 1 << 31;
/// Of an entry of the index: the number of the record.
const INDEX: u32 = SESSIONS_MAX;

/// Why something was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// As many sessions as there may be.
    #[error("the table has as many sessions as it may have; raise their maximum")]
    Full,
    /// No room in the index near this key: chance, or an attacker that knows the seed of the hash.
    #[error("no room in the index for this key")]
    IndexFull,
    /// The key belongs to a session already.
    #[error("another session has this key")]
    Taken,
    /// The record has a second key already, is no longer in the index, or the shape has no second
    /// keys.
    #[error("this session can have no second key, or has one")]
    NoRoom,
}

/// The result of a look-up: a session or nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Found(u32);

impl Found {
    /// No session has the key.
    pub const NONE: Found = Found(u32::MAX);

    /// The number of its record.
    #[inline]
    pub fn index(self) -> Option<u32> {
        (self != Found::NONE).then_some(self.0 & INDEX)
    }

    /// Whether it was found by its second key.
    #[inline]
    pub fn is_alias(self) -> bool {
        self != Found::NONE && self.0 & ALIAS != 0
    }

    /// Whether nothing was found.
    #[inline]
    pub fn is_none(self) -> bool {
        self == Found::NONE
    }
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index() {
            None => write!(f, "none"),
            Some(index) if self.is_alias() => write!(f, "{index} by its second key"),
            Some(index) => write!(f, "{index}"),
        }
    }
}

/// Sessions of one level and thread.
///
/// A record lives from [`Pool::insert`] to [`Pool::free`]; [`Pool::unlink`] between them makes it
/// unknown to lookups. Functions that take the number of a record panic where no record of this
/// number ever was; [`Pool::is_live`] takes any.
pub struct Pool {
    records: Records,
    index: Index,
    hasher: Hasher,
    has_alias: bool,
}

/// Most keys of a session.
fn keys(has_alias: bool) -> u32 {
    if has_alias { 2 } else { 1 }
}

/// Keys for two lines of the index: fewer make lookups faster, more make it smaller. With two keys
/// per session it has to be small.
fn keys_per_two_lines(has_alias: bool) -> u32 {
    if has_alias { 11 } else { 9 }
}

impl Pool {
    /// An empty one: 16 kB.
    ///
    /// # Panics
    /// The shape is beyond its bounds.
    pub fn new(shape: Shape, hasher: Hasher) -> Pool {
        assert!((1..=KEY_WORDS_MAX).contains(&shape.key_words), "a session key of 1 to 16 words");
        assert!(shape.scratch_len <= SCRATCH_LEN_MAX, "scratch of more than 64 kB");
        assert!(shape.sessions_max <= SESSIONS_MAX, "more sessions than records can be numbered");
        let has_alias = shape.alias;
        let index = Index::new(shape.sessions_max * keys(has_alias), keys_per_two_lines(has_alias));
        Pool { records: Records::new(shape), index, hasher, has_alias }
    }

    #[inline]
    fn hash(&self, key: &[u32]) -> u32 {
        self.hasher.hash(key) as u32
    }

    /// Whether an entry of the index is of this key.
    #[inline]
    fn is_key(&self, entry: u32, key: &[u32]) -> bool {
        let own = self.records.key(entry & INDEX);
        if entry & ALIAS == 0 {
            return own == key;
        }
        let (last, rest) = key.split_last().unwrap_or((&0, &[]));
        own.last() == Some(last) && self.records.alias(entry & INDEX) == rest
    }

    #[inline]
    fn find_hashed(&self, hash: u32, key: &[u32]) -> Found {
        Found(self.index.find(hash, |entry| self.is_key(entry, key)).unwrap_or(Found::NONE.0))
    }

    /// Prefetches the lines that [`Pool::find`], [`Pool::insert`] or [`Pool::alias`] with this key
    /// will read first. After [`Pool::find_batch`] they are cached already.
    #[inline]
    pub fn prefetch_key(&self, key: &[u32]) {
        self.index.first(self.hash(key)).prefetch();
    }

    /// The session of a key.
    #[inline]
    pub fn find(&self, key: &[u32]) -> Found {
        self.find_hashed(self.hash(key), key)
    }

    /// A record for a new session: its head zero, its scratch of the initial value, its extra words
    /// 0. No session may have the key.
    ///
    /// # Errors
    /// [`Refused::Full`] or [`Refused::IndexFull`].
    ///
    /// # Panics
    /// The number of words in the key differs from the shape's.
    pub fn insert(&mut self, key: &[u32]) -> Result<u32, Refused> {
        let index = self.records.acquire().ok_or(Refused::Full)?;
        self.link(key, index)
    }

    /// The same, in the record of this number if it was never used; in any other one else.
    ///
    /// # Errors
    /// As [`Pool::insert`].
    pub fn insert_at(&mut self, key: &[u32], index: u32) -> Result<u32, Refused> {
        let index = self.records.acquire_at(index).ok_or(Refused::Full)?;
        self.link(key, index)
    }

    /// Gives a record that was just acquired its key.
    #[inline]
    fn link(&mut self, key: &[u32], index: u32) -> Result<u32, Refused> {
        let hash = self.hash(key);
        debug_assert!(self.find_hashed(hash, key).is_none(), "a key twice");
        self.records.key_mut(index).copy_from_slice(key);
        self.records.extra_mut(index).fill(0);
        if !self.index.insert(hash, index) {
            self.records.release(index);
            return Err(Refused::IndexFull);
        }
        self.records.head_mut(index).flags = Head::LIVE | Head::LINKED;
        Ok(index)
    }

    /// Gives a session its second key, which goes with it.
    ///
    /// # Errors
    /// [`Refused::Taken`] (also by the session itself), [`Refused::IndexFull`], or
    /// [`Refused::NoRoom`] if the key's last word is not that of the first key, too.
    ///
    /// # Panics
    /// The number of words in the key differs from the shape's.
    pub fn alias(&mut self, index: u32, key: &[u32]) -> Result<(), Refused> {
        let (last, rest) = key.split_last().ok_or(Refused::NoRoom)?;
        let head = *self.records.head(index);
        let is_open = self.has_alias && head.is(Head::LINKED) && !head.is(Head::ALIASED);
        if !is_open || self.records.key(index).last() != Some(last) {
            return Err(Refused::NoRoom);
        }
        let hash = self.hash(key);
        if !self.find_hashed(hash, key).is_none() {
            return Err(Refused::Taken);
        }
        self.records.alias_mut(index).copy_from_slice(rest);
        if !self.index.insert(hash, index | ALIAS) {
            return Err(Refused::IndexFull);
        }
        self.records.head_mut(index).flags |= Head::ALIASED;
        Ok(())
    }

    /// Takes a session's keys out of the index: it is not found any more, its record stays.
    pub fn unlink(&mut self, index: u32) {
        let head = *self.records.head(index);
        if !head.is(Head::LINKED) {
            return;
        }
        let was_there = self.index.remove(self.hash(self.records.key(index)), index);
        debug_assert!(was_there, "record {index} is linked and not in the index");
        if head.is(Head::ALIASED) {
            let hash = self.alias_hash(index);
            let was_there = self.index.remove(hash, index | ALIAS);
            debug_assert!(was_there, "the second key of record {index} is not in the index");
        }
        self.records.head_mut(index).flags &= !Head::LINKED;
    }

    /// The hash of a second key, put together again.
    fn alias_hash(&self, index: u32) -> u32 {
        let (own, alias) = (self.records.key(index), self.records.alias(index));
        let mut key = [0; KEY_WORDS_MAX];
        let key = &mut key[..own.len()];
        key.copy_from_slice(own);
        key[..alias.len()].copy_from_slice(alias);
        self.hash(key)
    }

    /// Gives a record back, for another session; unlinks it if it still is linked. Nothing happens
    /// if it is not in use.
    pub fn free(&mut self, index: u32) {
        if self.records.is_live(index) {
            self.unlink(index);
            self.records.release(index);
        }
    }
}
