//! Learnt bindings, and their ages.

use std::hash::{BuildHasher, RandomState};

use thruway_sync::atomic::{AtomicU64, Ordering};
use thruway_sync::{SeqWords, Words, WordsMut};

/// Words of a bucket: two cache lines, with the version in front.
const WORDS: usize = 15;
/// Unit of age: 2^20 ns, about a millisecond.
pub const TICK_NS: i64 = 1 << TICK_SHIFT;
const TICK_SHIFT: u32 = 20;
/// Bits of a value's first word that are the user's; above them stand age and the mark of fixed
/// entries.
pub const VALUE_BITS: u32 = 24;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
/// The entry does not age.
const FIXED: u64 = 1 << VALUE_BITS;
/// Above these bits: when the entry was seen last, in ticks modulo 2^39 (18 years).
const SEEN_SHIFT: u32 = VALUE_BITS + 1;
const SEEN_MASK: u64 = u64::MAX >> SEEN_SHIFT;
/// Longest effective time, in ticks: an entry older than half the range of the clock seems to be in
/// the future.
const MAX_TIMEOUT: u64 = SEEN_MASK / 4;
/// An entry that is seen again is written when this part of the time that it counts has gone by,
/// so that a busy address costs its cache line a few writes only.
const REFRESH_PARTS: u64 = 256;
/// How often a look-up tries again when writers are at work in its bucket.
const READ_TRIES: usize = 16;
/// Error text for an entry that finds no space.
pub const NO_ROOM_MESSAGE: &str = "no room where it belongs; a larger CAPACITY has more";

/// Entries of `V` words under keys other than 0, which are forgotten some time after they were seen
/// last. Any thread looks up and learns.
///
/// A key has its place in one bucket (7 entries of one word, 5 of two); old entries there make
/// room, others never do. At capacity, about one key in a thousand finds its bucket full. The hash
/// has a secret seed: an attacker cannot choose keys for one bucket.
///
/// ```
/// use thruway_table::{AgingTable, Learnt};
/// let table = AgingTable::<1>::new(100, 300_000_000_000);
/// let (key, port, now) = (0xabc, 5, 1_000_000_000);
/// assert_eq!(table.learn(key, [port], now), Learnt::Stored);
/// assert_eq!(table.find(key, now), Some([port]));
/// assert_eq!(table.find(key, now + 301_000_000_000), None);
/// ```
#[derive(Debug)]
pub struct AgingTable<const V: usize> {
    buckets: Box<[Bucket]>,
    seeds: [u64; 2],
    /// In ticks.
    timeout: AtomicU64,
}

#[derive(Debug)]
#[repr(C, align(128))]
struct Bucket(SeqWords<WORDS>);

/// The result of learning an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learnt {
    /// The table has it already.
    Known,
    /// It is stored now.
    Stored,
    /// The key has an entry that does not age.
    Fixed,
    /// All places that it could have are taken by entries that are not old.
    Full,
    /// Another thread was writing there: nothing was done.
    Busy,
}

/// An entry of a list of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<const V: usize> {
    /// Its key.
    pub key: u64,
    /// Its value.
    pub value: [u64; V],
    /// Whether it does not age.
    pub fixed: bool,
}

/// The time in ticks, as entries have it.
fn ticks(now: i64) -> u64 {
    (now >> TICK_SHIFT) as u64 & SEEN_MASK
}

/// Ticks since the entry was seen; 0 if that seems to lie ahead, as when a clock was set back.
#[inline]
fn age(first: u64, now: u64) -> u64 {
    let age = now.wrapping_sub(first >> SEEN_SHIFT) & SEEN_MASK;
    if age > SEEN_MASK / 2 { 0 } else { age }
}

/// Whether the entry with this first word counts.
#[inline]
fn is_fresh(first: u64, now: u64, timeout: u64) -> bool {
    first & FIXED != 0 || age(first, now) < timeout
}

/// The entry (way) of a bucket that has this key.
///
/// PERF: all are compared, without a branch for each, as which it is cannot be foreseen: a look-up
/// takes 7 to 10 ns instead of 10 to 12 with up to 65,536 entries. With a million it takes 52
/// instead of 37, for a processor that guesses loads the value early
/// (`cargo run --release -p thruway-table --example rate`).
#[inline]
fn slot_of(words: Words<'_, WORDS>, slots: usize, key: u64) -> Option<usize> {
    let found =
        (0..slots).fold(slots, |found, slot| if words.get(slot) == key { slot } else { found });
    (found < slots).then_some(found)
}

fn stamped<const V: usize>(mut value: [u64; V], seen: u64, fixed: bool) -> [u64; V] {
    value[0] = value[0] & VALUE_MASK | seen << SEEN_SHIFT | if fixed { FIXED } else { 0 };
    value
}

fn bare<const V: usize>(mut value: [u64; V]) -> [u64; V] {
    value[0] &= VALUE_MASK;
    value
}

impl<const V: usize> AgingTable<V> {
    /// Entries of a bucket; their keys stand in front, beside the version, the values behind them.
    const SLOTS: usize = WORDS / (1 + V);

    /// A table with room for `capacity` entries, which count for `timeout` nanoseconds.
    ///
    /// It has 64 bytes and more for each entry of one word, 128 for each of two.
    pub fn new(capacity: usize, timeout: i64) -> Self {
        // Two of seven places taken: buckets of random keys are hardly ever full.
        let buckets = capacity.div_ceil(if V == 1 { 2 } else { 1 }).next_power_of_two();
        let bucket = |_| Bucket(SeqWords::new([0; WORDS]));
        let secret = RandomState::new();
        let table = AgingTable {
            buckets: (0..buckets).map(bucket).collect(),
            seeds: [secret.hash_one(0), secret.hash_one(1) | 1],
            timeout: AtomicU64::new(0),
        };
        table.set_timeout(timeout);
        table
    }

    /// Bytes that an entry reaches: a bucket, which few others share.
    pub fn entry_bytes(&self) -> usize {
        size_of::<Bucket>()
    }

    /// Sets how long entries count, in nanoseconds; to within a 256th part, and at least a
    /// millisecond.
    pub fn set_timeout(&self, timeout: i64) {
        let ticks = (timeout.max(0) as u64).div_ceil(TICK_NS as u64);
        // Relaxed: a thread that sees it a moment later is right too.
        self.timeout.store(ticks.min(MAX_TIMEOUT), Ordering::Relaxed);
    }

    fn timeout(&self) -> u64 {
        self.timeout.load(Ordering::Relaxed)
    }

    #[inline]
    fn bucket(&self, key: u64) -> &SeqWords<WORDS> {
        let product = u128::from(key ^ self.seeds[0]) * u128::from(self.seeds[1]);
        let hash = (product >> 64) as usize ^ product as usize;
        &self.buckets[hash & (self.buckets.len() - 1)].0
    }

    /// The value of a key, if it was seen not too long ago. While other threads keep writing in its
    /// bucket the answer may be `None` too.
    #[inline]
    pub fn find(&self, key: u64, now: i64) -> Option<[u64; V]> {
        let (bucket, now, timeout) = (self.bucket(key), ticks(now), self.timeout());
        for _ in 0..READ_TRIES {
            let found = bucket.read(|words| {
                let slot = slot_of(words, Self::SLOTS, key)?;
                Some(std::array::from_fn(|word| words.get(Self::SLOTS + slot * V + word)))
            });
            if let Some(found) = found {
                let value = found.filter(|value: &[u64; V]| is_fresh(value[0], now, timeout))?;
                return Some(bare(value));
            }
            wait_a_little();
        }
        None
    }

    /// Records that `key`, which is not 0, was seen with `value`, with a first word of
    /// [`VALUE_BITS`] bits.
    #[inline]
    pub fn learn(&self, key: u64, value: [u64; V], now: i64) -> Learnt {
        let (bucket, now, timeout) = (self.bucket(key), ticks(now), self.timeout());
        let known = bucket.read(|words| {
            let slot = slot_of(words, Self::SLOTS, key)?;
            let first = words.get(Self::SLOTS + slot * V);
            let same = (0..V).all(|word| {
                let there = words.get(Self::SLOTS + slot * V + word);
                (if word == 0 { there & VALUE_MASK } else { there }) == value[word]
            });
            Some((first, same))
        });
        match known {
            Some(Some((first, _))) if first & FIXED != 0 => return Learnt::Fixed,
            Some(Some((first, true))) if age(first, now) <= timeout / REFRESH_PARTS => {
                return Learnt::Known;
            }
            _ => {}
        }
        self.store(bucket, key, stamped(value, now, false), now).unwrap_or(Learnt::Busy)
    }

    /// Writes an entry into its bucket, unless another thread writes there.
    fn store(
        &self,
        bucket: &SeqWords<WORDS>,
        key: u64,
        value: [u64; V],
        now: u64,
    ) -> Option<Learnt> {
        let timeout = self.timeout();
        let to_be_fixed = value[0] & FIXED != 0;
        bucket.try_write(|words| {
            let first = |words: &WordsMut<'_, WORDS>, slot| words.get(Self::SLOTS + slot * V);
            let own = (0..Self::SLOTS).find(|slot| words.get(*slot) == key);
            if own.is_some_and(|slot| first(words, slot) & FIXED != 0) && !to_be_fixed {
                return Learnt::Fixed;
            }
            let slot =
                own.or_else(|| (0..Self::SLOTS).find(|slot| words.get(*slot) == 0)).or_else(|| {
                    (0..Self::SLOTS).find(|slot| !is_fresh(first(words, *slot), now, timeout))
                });
            let Some(slot) = slot else { return Learnt::Full };
            words.set(slot, key);
            for (word, value) in value.into_iter().enumerate() {
                words.set(Self::SLOTS + slot * V + word, value);
            }
            Learnt::Stored
        })
    }

    /// Enters a binding that does not age, and replaces a learnt one. For handlers: it waits while
    /// another thread writes.
    ///
    /// # Errors
    /// [`NO_ROOM_MESSAGE`].
    pub fn fix(&self, key: u64, value: [u64; V], now: i64) -> Result<(), &'static str> {
        let now = ticks(now);
        let (bucket, value) = (self.bucket(key), stamped(value, now, true));
        match until(|| self.store(bucket, key, value, now)) {
            Learnt::Full => Err(NO_ROOM_MESSAGE),
            _ => Ok(()),
        }
    }

    /// Forgets a key; whether it was there. For handlers, as [`AgingTable::fix`].
    pub fn remove(&self, key: u64) -> bool {
        let bucket = self.bucket(key);
        until(|| {
            bucket.try_write(|words| {
                let slot = (0..Self::SLOTS).find(|slot| words.get(*slot) == key);
                slot.inspect(|slot| words.set(*slot, 0)).is_some()
            })
        })
    }

    /// Removes all entries but those that `keep` accepts. For handlers, as [`AgingTable::fix`].
    pub fn retain(&self, keep: impl Fn(&Found<V>) -> bool) {
        for bucket in &self.buckets {
            let has_any =
                |words: Words<'_, WORDS>| (0..Self::SLOTS).any(|slot| words.get(slot) != 0);
            if bucket.0.read(has_any) == Some(false) {
                continue;
            }
            until(|| {
                bucket.0.try_write(|words| {
                    for slot in 0..Self::SLOTS {
                        let value = std::array::from_fn(|n| words.get(Self::SLOTS + slot * V + n));
                        let entry = found(words.get(slot), value);
                        if entry.key != 0 && !keep(&entry) {
                            words.set(slot, 0);
                        }
                    }
                })
            });
        }
    }

    /// All entries that count, by key.
    pub fn entries(&self, now: i64) -> Vec<Found<V>> {
        let (now, timeout) = (ticks(now), self.timeout());
        let mut entries = Vec::new();
        for bucket in &self.buckets {
            let words: [u64; WORDS] =
                until(|| bucket.0.read(|words| std::array::from_fn(|at| words.get(at))));
            for (slot, key) in words[..Self::SLOTS].iter().enumerate().filter(|(_, key)| **key != 0)
            {
                let value: [u64; V] = std::array::from_fn(|n| words[Self::SLOTS + slot * V + n]);
                if is_fresh(value[0], now, timeout) {
                    entries.push(found(*key, value));
                }
            }
        }
        entries.sort_unstable_by_key(|entry| entry.key);
        entries
    }
}

fn found<const V: usize>(key: u64, value: [u64; V]) -> Found<V> {
    Found { key, value: bare(value), fixed: value[0] & FIXED != 0 }
}

#[cfg(not(loom))]
fn wait_a_little() {
    std::hint::spin_loop();
}

#[cfg(loom)]
fn wait_a_little() {
    loom::thread::yield_now();
}

/// Tries until no other thread writes: for handlers, which may wait.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        #[cfg(not(loom))]
        std::thread::yield_now();
        #[cfg(loom)]
        loom::thread::yield_now();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
