//! Buckets: which records have keys of this hash.
//!
//! A bucket is a header and a few slots. The header is one word: a bit for each slot that is
//! *visible*, and above the bits a version that every change of a bit increments. A slot holds an
//! [`Entry`], or 0 while it is free.

use std::iter;

use thruway_sync::atomic::{AtomicU64, Ordering, fence};

use super::memory::Lines;

/// Words of a bucket: two cache lines, which the adjacent-line prefetcher takes together.
#[cfg(not(loom))]
const BUCKET_WORDS: usize = 16;
#[cfg(loom)]
const BUCKET_WORDS: usize = 3;

/// Slots of a bucket, two in each word but the first.
pub(super) const SLOTS: usize = 2 * (BUCKET_WORDS - 1);

/// The unit of the version.
const VERSION: u64 = 1 << SLOTS;

/// Keys per bucket when every record has two. 15 of 30 slots: even then a bucket of a random hash
/// has no room for a key in about 1 of 40,000 cases; if every record has one key, in practice
/// never. (Under loom there is one bucket, so that all that happens meets in it.)
const KEYS_PER_BUCKET: u64 = if cfg!(loom) { u64::MAX } else { SLOTS as u64 / 2 };

/// Most records: an entry has place for their number, the key, and a tag of at least three bits.
pub const RECORDS_MAX: u32 = (1 << 28) - 1;

/// A header as it was once.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Header(u64);

/// The content of a slot: the number of a record plus 1 (so it is never 0), which of its two keys
/// this is, and above them as many bits of the key's hash as fit.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Entry(u32);

/// Which of a record's keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Which {
    /// That which it was published under.
    First,
    /// That which it got later.
    Second,
}

/// Where the entries of a hash are.
#[derive(Clone, Copy)]
pub(super) struct BucketRef<'a> {
    bucket: &'a [AtomicU64; BUCKET_WORDS],
    tag: u32,
    /// Bits of the number of a record, plus 1.
    number_bits: u32,
}

/// All buckets.
pub(super) struct Index {
    buckets: Lines<BUCKET_WORDS>,
    count: u64,
    number_bits: u32,
}

impl Index {
    /// The index of this many records, at most [`RECORDS_MAX`]; `None` if there is no such memory.
    pub fn new(records: u32) -> Option<Index> {
        let count = (2 * u64::from(records)).div_ceil(KEYS_PER_BUCKET).max(1);
        let number_bits = u32::BITS - records.leading_zeros();
        Some(Index { buckets: Lines::new(usize::try_from(count).ok()?)?, count, number_bits })
    }

    /// The bucket of a hash, by its upper half, and the tag, by its lower.
    #[inline]
    pub fn bucket(&self, hash: u64) -> BucketRef<'_> {
        let number = ((hash >> 32) * self.count) >> 32;
        // Under loom all tags are alike, so that keys are compared.
        let hashed = if cfg!(loom) { 0 } else { hash as u32 };
        let tag = hashed >> (self.number_bits + 1) << (self.number_bits + 1);
        let bucket = self.buckets.line(number as usize);
        BucketRef { bucket, tag, number_bits: self.number_bits }
    }
}

impl BucketRef<'_> {
    /// The entry of a record's key of this hash.
    pub fn entry(&self, record: u32, which: Which) -> Entry {
        Entry((record + 1) | (which as u32) << self.number_bits | self.tag)
    }

    /// The record and key of an entry, if its hash can be this one.
    #[inline]
    pub fn read(&self, entry: Entry) -> Option<(u32, Which)> {
        let below = entry.0 ^ self.tag;
        let which = if below >> self.number_bits & 1 == 0 { Which::First } else { Which::Second };
        // No bits of the tag are left over, and the slot was not empty.
        let fits = below >> self.number_bits <= 1;
        let number = (below & ((1 << self.number_bits) - 1)).checked_sub(1)?;
        fits.then_some((number, which))
    }

    /// Where the bucket is.
    #[cfg(all(test, not(loom)))]
    pub fn address(&self) -> usize {
        self.bucket.as_ptr().addr()
    }

    /// The header now.
    #[inline]
    pub fn header(&self) -> Header {
        // Acquire, from the Release of each `commit` whose bit is in it: their entries, and the
        // keys and words of their records, are seen. (Headers change by read-modify-write only,
        // so the newest value continues the release sequence of all earlier ones.)
        Header(self.bucket[0].load(Ordering::Acquire))
    }

    /// Whether the header is still this one. If so, no slot that it shows changed hands, and no
    /// record that these slots name was used anew, before what this thread read so far.
    #[inline]
    pub fn is_unchanged(&self, header: Header) -> bool {
        // The reader's half of a seqlock. Had this thread read something that is later than the
        // change of a bit (an entry, a control word, a key), this fence would make that change
        // visible to the load below: it pairs with the Release in `release`, which is between a
        // slot's two owners, and with the fences in `Records::draft` and `write_second`, which are
        // between a record's two lives.
        fence(Ordering::Acquire);
        self.bucket[0].load(Ordering::Relaxed) == header.0
    }

    /// The entries of the visible slots. Relaxed: `header` acquired the writes of their commits,
    /// and `is_unchanged` detects any later change in between.
    #[inline]
    pub fn entries(&self, header: Header) -> impl Iterator<Item = Entry> {
        let mut left = header.0 & (VERSION - 1);
        iter::from_fn(move || {
            let slot = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            let (word, shift) = self.slot(slot);
            Some(Entry((word.load(Ordering::Relaxed) >> shift) as u32))
        })
    }

    /// Takes a free slot for an entry, invisible; `None` if all are taken.
    pub fn claim(&self, entry: Entry) -> Option<usize> {
        (0..SLOTS).find(|slot| {
            let (word, shift) = self.slot(*slot);
            let mut seen = word.load(Ordering::Relaxed);
            while (seen >> shift) as u32 == 0 {
                // Relaxed: this extends the release sequence of the last owner's `release`, and
                // both a reader of the entry and this thread, before it commits, pass the fence in
                // `is_unchanged`. So both see that the bit of this slot was cleared.
                let new = seen | u64::from(entry.0) << shift;
                match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return true,
                    // The other half of the word changed, or this one is taken now.
                    Err(now) => seen = now,
                }
            }
            false
        })
    }

    /// Makes a claimed slot visible, if the header is still this one.
    pub fn commit(&self, header: Header, slot: usize) -> bool {
        let new = header.0.wrapping_add(VERSION + (1 << slot));
        // Release: the entry, and the keys and words of its record, are seen with the bit. No
        // Acquire: the value that is replaced was acquired when it was loaded.
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        self.bucket[0].compare_exchange(header.0, new, release, relaxed).is_ok()
    }

    /// Takes a visible entry away.
    pub fn remove(&self, entry: Entry) {
        let holds = |slot: &usize| {
            let (word, shift) = self.slot(*slot);
            // Relaxed: the record's control word was acquired from the thread that wrote the
            // entry, and others change the other half of the word only.
            (word.load(Ordering::Relaxed) >> shift) as u32 == entry.0
        };
        let slot = (0..SLOTS).find(holds).expect("a live record's entries are in their buckets");
        // The bit is set, and only this thread may clear it, so subtracting clears it. Relaxed:
        // what must come later, another owner of the slot or of the record, is ordered after
        // this by `release` below and by the free list.
        self.bucket[0].fetch_add(VERSION - (1 << slot), Ordering::Relaxed);
        self.release(slot);
    }

    /// Gives a claimed slot that is not visible back.
    pub fn release(&self, slot: usize) {
        let (word, shift) = self.slot(slot);
        // Release, to the fence in `is_unchanged`: a thread that reads the 0, or a later claim,
        // sees that the bit was cleared.
        word.fetch_and(!(u64::from(u32::MAX) << shift), Ordering::Release);
    }

    /// The word of a slot, and how far the slot is above its bit 0.
    #[inline]
    fn slot(&self, slot: usize) -> (&AtomicU64, u32) {
        (&self.bucket[1 + slot / 2], 32 * (slot as u32 % 2))
    }
}
