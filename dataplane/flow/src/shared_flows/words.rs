//! The words of a record: published with it, and added while it is held.

use thruway_sync::atomic::Ordering;

use crate::shared_flows::{Key, RecordId, SharedFlows, Which};

impl SharedFlows {
    /// Words of each record.
    #[inline]
    pub fn words_each(&self) -> usize {
        self.records.words_each()
    }

    /// A word of a record that the caller holds.
    #[inline]
    pub fn word(&self, record: RecordId, at: usize) -> u64 {
        // Acquire: to the Release of the last writer.
        self.records.words_of(record.index())[at].load(Ordering::Acquire)
    }

    /// Writes a word. A thread that reads another word that was written after it, by
    /// [`SharedFlows::add_to_word`], sees this one.
    #[inline]
    pub fn set_word(&self, record: RecordId, at: usize, value: u64) {
        // Release: to the Acquire in `word`.
        self.records.words_of(record.index())[at].store(value, Ordering::Release);
    }

    /// Sets bits of a word.
    #[inline]
    pub fn add_to_word(&self, record: RecordId, at: usize, bits: u64) {
        // Release: to the Acquire in `word`. Bits that two holders set at once are both there.
        self.records.words_of(record.index())[at].fetch_or(bits, Ordering::Release);
    }

    /// Writes `value` into the bits `field` of a word if they are all 0, and returns the resulting
    /// bits: if several threads claim a field at once, all learn the winner.
    pub fn claim(&self, record: RecordId, at: usize, field: u64, value: u64) -> u64 {
        let word = &self.records.words_of(record.index())[at];
        let change = |now: u64| (now & field == 0).then_some(now | value);
        // Release: to the Acquire of a thread that finds the field taken, here or in `word`.
        match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change) {
            Ok(_) => value,
            Err(taken) => taken & field,
        }
    }

    /// Takes bits of a word back, which were set in vain.
    pub fn take_from_word(&self, record: RecordId, at: usize, bits: u64) {
        // Release: as in `add_to_word`.
        self.records.words_of(record.index())[at].fetch_and(!bits, Ordering::Release);
    }

    /// Makes a record that the caller holds unfindable: its connection is over, and another may be
    /// published under its keys at once. Halves keep their data until they leave.
    pub fn retire(&self, record: RecordId) {
        self.records.retire(record.index());
    }

    /// Whether a key is the first one of a record that the caller holds; else it is the second, if
    /// the record was found by it.
    pub fn is_first_key(&self, record: RecordId, key: &Key) -> bool {
        self.records.key(record.index(), Which::First) == *key
    }
}
