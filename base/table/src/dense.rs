//! Entries by number.

use std::sync::{Mutex, MutexGuard, PoisonError};

use thruway_sync::SeqWords;
use thruway_sync::atomic::{AtomicU32, Ordering};

/// Bits of an entry's first word that are the user's; above them stands its number.
pub const ENTRY_BITS: u32 = 32;
/// Most bits of numbers: 64 MB of index.
const MAX_BITS: u32 = 24;

/// Entries of `W` words under numbers of few bits; the first word has [`ENTRY_BITS`]. Any thread
/// looks up, without waiting for anyone; changes wait for one another.
///
/// The index has four bytes for each number, of which only the used part becomes memory. An entry
/// is written to a slot that no number refers to, and then its number refers there: a look-up that
/// meets a writer finds the new reference at once. It finds one whole entry of that number, and
/// never an older one than a previous look-up found.
///
/// ```
/// use thruway_table::DenseTable;
/// let table = DenseTable::<2>::new(20, 100)?;
/// table.set(16, [1, 2])?;
/// assert_eq!(table.get(16), Some([1, 2]));
/// assert_eq!(table.get(17), None);
/// # Ok::<(), thruway_table::DenseError>(())
/// ```
#[derive(Debug)]
pub struct DenseTable<const W: usize> {
    /// Which slot each number has, counted from 1; 0 for none.
    index: Box<[AtomicU32]>,
    /// One more than there may be entries, so that each can be replaced.
    slots: Box<[SeqWords<W>]>,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    /// Slots that no number leads to; the last one is taken first.
    free: Vec<u32>,
    /// The number of each slot's entry: for listing.
    numbers: Vec<Option<u32>>,
}

/// Why a table cannot be made or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DenseError {
    /// The number has more bits than those of the table.
    #[error("the number is too large for the table")]
    Range,
    /// All entries are taken.
    #[error("the table is full; with a larger CAPACITY it has more entries")]
    Full,
    /// There is no memory for the table, or it is asked for more bits than 24.
    #[error("no memory for the table")]
    NoMemory,
}

#[cfg(not(loom))]
fn zeroed(count: usize) -> Result<Box<[AtomicU32]>, DenseError> {
    // Zero pages of the kernel: nothing is memory before it is written.
    zerocopy::FromZeros::new_box_zeroed_with_elems(count).map_err(|_| DenseError::NoMemory)
}

#[cfg(loom)]
fn zeroed(count: usize) -> Result<Box<[AtomicU32]>, DenseError> {
    Ok((0..count).map(|_| AtomicU32::new(0)).collect())
}

impl<const W: usize> DenseTable<W> {
    /// A table for numbers of `bits` bits, with room for `capacity` entries.
    ///
    /// # Errors
    /// [`DenseError::NoMemory`].
    pub fn new(bits: u32, capacity: usize) -> Result<Self, DenseError> {
        if bits > MAX_BITS {
            return Err(DenseError::NoMemory);
        }
        let slots = capacity.min(1 << bits) + 1;
        Ok(DenseTable {
            index: zeroed(1 << bits)?,
            slots: (0..slots).map(|_| SeqWords::new([0; W])).collect(),
            writer: Mutex::new(Writer {
                free: (0..slots as u32).rev().collect(),
                numbers: vec![None; slots],
            }),
        })
    }

    /// Bytes that an entry reaches: a line of the index, unless others are near, and its slot.
    pub fn entry_bytes(&self) -> usize {
        64 + size_of::<SeqWords<W>>()
    }

    /// The entry of a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<[u64; W]> {
        let index = self.index.get(number as usize)?;
        loop {
            // Acquire: the slot as it was when the reference to it was stored, or newer.
            let reference = index.load(Ordering::Acquire);
            let slot = reference.checked_sub(1)?;
            let read = |words: thruway_sync::Words<'_, W>| std::array::from_fn(|at| words.get(at));
            let words: Option<[u64; W]> = self.slots.get(slot as usize)?.read(read);
            // A writer may have reused the slot since. Before that it changed the number's
            // reference, and a reader of the new words sees the change. So an entry is not found
            // before its reference is stored: the next look-up would find the previous one again.
            if index.load(Ordering::Acquire) != reference {
                continue;
            }
            match words {
                Some(mut words) if words[0] >> ENTRY_BITS == u64::from(number) => {
                    words[0] &= (1 << ENTRY_BITS) - 1;
                    return Some(words);
                }
                // A writer was at the slot, or another number had it in between: the next round
                // sees the newer reference.
                _ => continue,
            }
        }
    }

    /// Gives a number an entry, in place of the one that it had.
    ///
    /// # Errors
    /// [`DenseError::Range`], or [`DenseError::Full`] if it has none yet.
    pub fn set(&self, number: u32, mut entry: [u64; W]) -> Result<(), DenseError> {
        let index = self.index.get(number as usize).ok_or(DenseError::Range)?;
        let mut writer = self.writer();
        // Relaxed: only the holder of the lock stores there.
        let old = index.load(Ordering::Relaxed).checked_sub(1);
        // The last free slot is for replacing.
        if writer.free.len() <= usize::from(old.is_none()) {
            return Err(DenseError::Full);
        }
        let slot = writer.free.pop().ok_or(DenseError::Full)?;
        entry[0] = entry[0] & ((1 << ENTRY_BITS) - 1) | u64::from(number) << ENTRY_BITS;
        // No other thread writes: this one has the lock.
        let written = self.slots[slot as usize].try_write(|words| {
            for (at, word) in entry.into_iter().enumerate() {
                words.set(at, word);
            }
        });
        debug_assert!(written.is_some());
        writer.numbers[slot as usize] = Some(number);
        // Release: a look-up that finds the reference finds the entry.
        index.store(slot + 1, Ordering::Release);
        if let Some(old) = old {
            writer.numbers[old as usize] = None;
            writer.free.push(old);
        }
        Ok(())
    }

    /// Takes a number's entry away; whether it had one.
    pub fn remove(&self, number: u32) -> bool {
        let Some(index) = self.index.get(number as usize) else { return false };
        let mut writer = self.writer();
        let Some(slot) = index.load(Ordering::Relaxed).checked_sub(1) else { return false };
        // Relaxed: the next write to the slot, by its version, shows this to its readers.
        index.store(0, Ordering::Relaxed);
        writer.numbers[slot as usize] = None;
        writer.free.push(slot);
        true
    }

    /// The numbers that have entries, in order.
    pub fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.writer().numbers.iter().copied().flatten().collect();
        numbers.sort_unstable();
        numbers
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A writer that panicked left a table with references to whole entries only.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn as_a_map(
            acts in prop::collection::vec((0u32..20, 0u64..1 << ENTRY_BITS, any::<u64>(), 0..5), 1..80),
        ) {
            let table = DenseTable::<2>::new(4, 6).unwrap();
            let mut map = BTreeMap::new();
            for (number, first, second, act) in acts {
                if act == 0 {
                    prop_assert_eq!(table.remove(number), map.remove(&number).is_some());
                } else {
                    let wanted = match () {
                        () if number >= 16 => Err(DenseError::Range),
                        () if map.len() == 6 && !map.contains_key(&number) => Err(DenseError::Full),
                        () => {
                            map.insert(number, [first, second]);
                            Ok(())
                        }
                    };
                    prop_assert_eq!(table.set(number, [first, second]), wanted);
                }
                for number in 0..20 {
                    prop_assert_eq!(table.get(number), map.get(&number).copied());
                }
                prop_assert_eq!(table.numbers(), map.keys().copied().collect::<Vec<_>>());
            }
        }
    }

    /// Look-ups while entries are replaced find one that was there.
    #[test]
    fn threads_find_whole_entries() {
        let table = DenseTable::<3>::new(4, 3).unwrap();
        let rounds = if cfg!(miri) { 100 } else { 30_000u64 };
        table.set(1, [0, 0, 1]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    table.set(1, [round, round, 1]).unwrap();
                    table.set(2, [round, round, 2]).unwrap();
                    table.remove(2);
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..rounds {
                        let [first, second, number] = table.get(1).expect("it always has an entry");
                        assert!(first == second && number == 1 && first >= last);
                        last = first;
                        if let Some([first, second, number]) = table.get(2) {
                            assert!(first == second && number == 2);
                        }
                    }
                });
            }
        });
    }
}
