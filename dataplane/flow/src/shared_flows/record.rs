//! Records: the shared state of the two directions of a connection, and the free list.

use std::iter;

use thruway_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::index::Which;
use super::key::{KEY_WORDS, Key};
use super::memory::{Lines, pairs, words};

/// A key as it is stored.
const STORED: usize = KEY_WORDS / 2;
/// A record's line: its control word, its link in the free list, its first key.
const LINE: usize = 2 + STORED;
const CONTROL: usize = 0;
const LINK: usize = 1;
const FIRST: usize = 2;

/// Of a control word: how many sessions hold the record. 0: none does, and none will before
/// the record is used anew.
const HALVES: u64 = 0xffff;
/// Of a control word: it has a second key.
const SECOND: u64 = 1 << 16;
/// Of a control word: it is not to be found any more, though a session holds it.
const RETIRED: u64 = 1 << 17;
/// The unit of the generation: the rest of a control word. It changes each time that a record is
/// reused: 2^46 times before it repeats.
const GENERATION: u64 = 1 << 18;

/// A control word as it was once.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Control(u64);

/// The outcome of an attempt to hold a record.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Hold {
    /// One more session holds it.
    Held,
    /// Its last holder had left.
    Gone,
    /// The count of its holders is at its maximum.
    TooManyHolders,
}

/// The leftovers that the last holder removes.
pub(super) struct Remains {
    pub second: bool,
}

/// All records.
pub(super) struct Records {
    lines: Lines<LINE>,
    seconds: Box<[AtomicU64]>,
    words: Box<[AtomicU64]>,
    /// When it was last active, and its state.
    live: Box<[[AtomicU32; 2]]>,
    count: u32,
    words_each: usize,
    /// The first free record, and above it a count of changes.
    free: AtomicU64,
}

impl Records {
    /// Free records; `None` if there is no such memory.
    pub fn new(count: u32, words_each: usize) -> Option<Records> {
        let records = usize::try_from(count).ok()?;
        Some(Records {
            lines: Lines::new(records)?,
            seconds: words(records.checked_mul(STORED)?)?,
            words: words(records.checked_mul(words_each)?)?,
            live: pairs(records)?,
            count,
            words_each,
            free: AtomicU64::new(0),
        })
    }

    /// A new record with this first key, held once, which no thread can find yet.
    pub fn draft(&self, key: &Key, words: &[u64], now: u32) -> Option<u32> {
        assert_eq!(words.len(), self.words_each, "as many words as a record has");
        let record = self.pop()?;
        let control = self.control(record);
        // Relaxed: the record is this thread's alone since `pop` acquired it.
        let old = control.load(Ordering::Relaxed);
        // A thread that was sent here by an entry of the record's life before may read what is
        // written now. Its fence (`Place::is_unchanged`) then pairs with this one: it sees that
        // the entry was removed, which was before this record was free.
        fence(Ordering::Release);
        // Relaxed: the Release in `Place::commit` makes all of it visible.
        control.store((old / GENERATION).wrapping_add(1) * GENERATION + 1, Ordering::Relaxed);
        store(self.stored(record, Which::First), key);
        for (words, word) in iter::zip(self.words_of(record), words) {
            words.store(*word, Ordering::Relaxed);
        }
        let [seen, state] = &self.live[record as usize];
        seen.store(now, Ordering::Relaxed);
        state.store(0, Ordering::Relaxed);
        Some(record)
    }

    /// Frees a draft that no thread could find.
    pub fn withdraw(&self, record: u32) {
        let control = self.control(record);
        // Relaxed: no other thread holds it.
        control.store(control.load(Ordering::Relaxed) & !HALVES, Ordering::Relaxed);
        self.push(record);
    }

    /// The record's control word, if a session holds it and its key is this one. True only if the
    /// entry that led here is found to be still there, afterwards.
    #[inline]
    pub fn matches(&self, record: u32, which: Which, key: &Key) -> Option<Control> {
        // Relaxed, as the key's words below: the header of the bucket was acquired, so this is
        // not older than the life that it shows; that it is not younger is checked afterwards.
        let control = Control(self.control(record).load(Ordering::Relaxed));
        let equal = || {
            let stored = self.stored(record, which);
            iter::zip(stored, packed(key)).all(|(a, b)| a.load(Ordering::Relaxed) == b)
        };
        (control.0 & HALVES != 0 && control.0 & RETIRED == 0 && equal()).then_some(control)
    }

    /// Takes a hold on a record, if it is still in the life that `matches` saw.
    pub fn hold(&self, record: u32, Control(mut seen): Control) -> Hold {
        loop {
            if seen & HALVES == HALVES {
                return Hold::TooManyHolders;
            }
            // Relaxed: the record's contents were acquired with the header that showed it. That
            // everything this holder does comes before the record's next life is seen to in
            // `leave`.
            let (relaxed, word) = (Ordering::Relaxed, self.control(record));
            match word.compare_exchange(seen, seen + 1, relaxed, relaxed) {
                Ok(_) => return Hold::Held,
                Err(now) if now / GENERATION != seen / GENERATION => return Hold::Gone,
                Err(now) if now & HALVES == 0 || now & RETIRED != 0 => return Hold::Gone,
                Err(now) => seen = now,
            }
        }
    }

    /// Removes one holder. The last one gets the entries to remove before it calls `push`.
    pub fn leave(&self, record: u32) -> Option<Remains> {
        let one_less = |now: u64| (now & HALVES != 0).then(|| now - 1);
        // Release: all uses of the record by this holder precede those by the last one.
        // Acquire: the last one comes after all others.
        let before = self
            .control(record)
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less)
            .unwrap_or(0);
        debug_assert_ne!(before & HALVES, 0, "left more often than held");
        (before & HALVES == 1).then_some(Remains { second: before & SECOND != 0 })
    }

    /// Hides a held record from later lookups.
    pub fn retire(&self, record: u32) {
        // Relaxed: a thread that finds the record must change this word to hold it, and sees the
        // bit then.
        self.control(record).fetch_or(RETIRED, Ordering::Relaxed);
    }

    /// Says that a record has a second key and writes it; false if it has one.
    pub fn write_second(&self, record: u32, key: &Key) -> bool {
        // Acquire: after the writes of another holder that took its key back since.
        if self.control(record).fetch_or(SECOND, Ordering::Acquire) & SECOND != 0 {
            return false;
        }
        // As in `draft`: an entry of an earlier second key may have sent a reader here.
        fence(Ordering::Release);
        store(self.stored(record, Which::Second), key);
        true
    }

    /// Takes back a second key that is not in the index.
    pub fn erase_second(&self, record: u32) {
        // Release: to the Acquire in `write_second`.
        self.control(record).fetch_and(!SECOND, Ordering::Release);
    }

    /// A key of a record that the caller holds.
    pub fn key(&self, record: u32, which: Which) -> Key {
        let mut key = [0; KEY_WORDS];
        let (pairs, _) = key.as_chunks_mut();
        for ([low, high], word) in iter::zip(pairs, self.stored(record, which)) {
            // Relaxed: it was acquired with the header that showed the record, or with the
            // control word on leaving.
            let word = word.load(Ordering::Relaxed);
            (*low, *high) = (word as u32, (word >> 32) as u32);
        }
        key
    }

    /// Words of each record.
    #[inline]
    pub fn words_each(&self) -> usize {
        self.words_each
    }

    /// The words of a record.
    #[inline]
    pub fn words_of(&self, record: u32) -> &[AtomicU64] {
        &self.words[record as usize * self.words_each..][..self.words_each]
    }

    /// When a record was last active, and its state.
    #[inline]
    pub fn live(&self, record: u32) -> &[AtomicU32; 2] {
        &self.live[record as usize]
    }

    /// Takes a free record off the list.
    fn pop(&self) -> Option<u32> {
        // Acquire, here and below, from the Release in `push`: the link is seen, and all that was
        // done with the record before it was freed.
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let record = head as u32;
            if record == self.count {
                return None;
            }
            // A link that was never written is 0 and leads to the following record: so fresh
            // memory is a list of all records, and is not touched before it is needed. Relaxed:
            // if the record was popped and pushed since, the compare-exchange fails.
            let next = match self.link(record).load(Ordering::Relaxed) {
                0 => record + 1,
                link => link as u32 - 1,
            };
            let (new, acquire) = (after(head, next), Ordering::Acquire);
            match self.free.compare_exchange_weak(head, new, acquire, acquire) {
                Ok(_) => return Some(record),
                Err(now) => head = now,
            }
        }
    }

    /// Pushes a record that no thread holds or can find onto the list.
    pub fn push(&self, record: u32) {
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            self.link(record).store(u64::from(head as u32) + 1, Ordering::Relaxed);
            // Release: to `pop`, which comes later on this chain of read-modify-writes.
            let (new, relaxed) = (after(head, record), Ordering::Relaxed);
            match self.free.compare_exchange_weak(head, new, Ordering::Release, relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    #[inline]
    fn control(&self, record: u32) -> &AtomicU64 {
        &self.lines.line(record as usize)[CONTROL]
    }

    fn link(&self, record: u32) -> &AtomicU64 {
        &self.lines.line(record as usize)[LINK]
    }

    #[inline]
    fn stored(&self, record: u32, which: Which) -> &[AtomicU64] {
        match which {
            Which::First => &self.lines.line(record as usize)[FIRST..],
            Which::Second => &self.seconds[record as usize * STORED..][..STORED],
        }
    }
}

/// The free list's head after a change: the count of changes makes a head that is looked at and
/// changed twice since differ from what it was.
fn after(head: u64, record: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(record)
}

/// A key as it is stored.
#[inline]
fn packed(key: &Key) -> impl Iterator<Item = u64> {
    key.as_chunks().0.iter().map(|[low, high]| u64::from(*low) | u64::from(*high) << 32)
}

/// Writes a key. Relaxed: see `draft`.
fn store(words: &[AtomicU64], key: &Key) {
    iter::zip(words, packed(key)).for_each(|(words, word)| words.store(word, Ordering::Relaxed));
}
