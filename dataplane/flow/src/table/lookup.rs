//! Looking up many keys at once, so that the memory of one is fetched while others are compared.

use crate::table::line::Tag;
use crate::table::{ALIAS, Found, INDEX, Pool};

/// Keys in flight at a time. From 32 to 256 lookups take the same time within a nanosecond (`cargo
/// run --release -p thruway-flow --example table_bench`); one packet alone pays for the larger
/// arrays.
const BATCH: usize = 64;

impl Pool {
    /// The sessions of these keys, each as by [`Pool::find`]. `W` is the number of words of this
    /// table's keys; `found` has as many elements as `keys`.
    #[inline]
    pub fn find_batch<const W: usize>(&self, keys: &[[u32; W]], found: &mut [Found]) {
        assert_eq!(W, self.records.layout().key_words, "words of a key");
        assert_eq!(keys.len(), found.len(), "as many results as keys");
        for (keys, found) in keys.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            self.find_some(keys, found);
        }
    }

    /// At most [`BATCH`] keys, in three passes: the bucket of each is fetched, then the record of
    /// the slot that has its tag, then the keys are compared. A fourth, between them, is for tags
    /// beyond the first line of a bucket that has more.
    fn find_some<const W: usize>(&self, keys: &[[u32; W]], found: &mut [Found]) {
        let mut hashes = [0_u32; BATCH];
        for (key, hash) in keys.iter().zip(&mut hashes) {
            *hash = self.hash(key);
            self.index.first(*hash).prefetch();
        }
        let (mut late, mut late_len) = ([0_u8; BATCH], 0);
        for (n, (hash, found)) in hashes.iter().zip(found.iter_mut()).enumerate() {
            let line = self.index.first(*hash);
            *found = Found::NONE;
            if let Some(slot) = line.matches(Tag::of(*hash)).next() {
                *found = self.candidate(line.entry(slot));
            } else if let Some(more) = self.index.next(line) {
                more.prefetch();
                late[late_len % BATCH] = n as u8;
                late_len += 1;
            }
        }
        for n in late[..late_len].iter().map(|n| usize::from(*n)) {
            let entry = self.index.find(hashes[n % BATCH], |_| true);
            found[n] = entry.map_or(Found::NONE, |entry| self.candidate(entry));
        }
        for ((key, hash), found) in keys.iter().zip(&hashes).zip(found.iter_mut()) {
            // Another key may have the same tag: then the right one is searched for from the start.
            if *found != Found::NONE && !self.is_array(found.0, key) {
                *found = self.find_hashed(*hash, key);
            }
        }
    }

    /// [`Pool::is_key`] for keys of a length known at compile time, which are compared in
    /// registers.
    #[inline]
    fn is_array<const W: usize>(&self, entry: u32, key: &[u32; W]) -> bool {
        let words = self.records.keys(entry & INDEX);
        let Some((own, rest)) = words.split_first_chunk::<W>() else { return false };
        if entry & ALIAS == 0 {
            return own == key;
        }
        // The last word is that of the first key.
        let mut alias = *own;
        match rest.get(..W - 1) {
            Some(rest) => alias[..W - 1].copy_from_slice(rest),
            None => return false,
        }
        alias == *key
    }

    /// A session that may be the right one: its record is fetched.
    #[inline]
    fn candidate(&self, entry: u32) -> Found {
        self.records.prefetch(entry & INDEX);
        Found(entry)
    }
}
