//! The numbers of a record's TCP connection: a side for each direction, which the thread that
//! serves it writes and the other one reads.
//!
//! The two directions have separate memory, so that two threads that each serve one do not take a
//! line from each other for every packet. Numbers order no other memory and are valid on their own:
//! all accesses are relaxed. A reader may see the numbers of a moment ago, never those of a segment
//! that is yet to come: the other side has received the segments that it answers, after they were
//! recorded here.

use thruway_sync::atomic::{AtomicU64, Ordering};

use super::key::RecordId;
use super::memory::words;
use crate::fcb::Direction;
use crate::tcp::Side;

/// Of each record: end and acknowledgement, and the rest of the state.
const WORDS: usize = 2;

/// See the module.
pub(super) struct Sides([Box<[AtomicU64]>; 2]);

impl Sides {
    /// None known; `None` if there is no such memory.
    pub fn new(records: usize) -> Option<Sides> {
        let each = records.checked_mul(WORDS)?;
        Some(Sides([words(each)?, words(each)?]))
    }

    fn of(&self, record: RecordId, direction: Direction) -> &[AtomicU64; WORDS] {
        let all = &self.0[usize::from(direction == Direction::Reply)];
        &all.as_chunks().0[record.index() as usize]
    }

    /// Nothing is known of a new record's.
    pub fn clear(&self, record: u32) {
        for direction in [Direction::Forward, Direction::Reply] {
            let words = self.of(RecordId::from_index(record), direction);
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }

    /// The numbers of a side of a record.
    #[inline]
    pub fn get(&self, record: RecordId, direction: Direction) -> Side {
        let [numbers, meta] =
            self.of(record, direction).each_ref().map(|word| word.load(Ordering::Relaxed));
        Side { end: (numbers >> 32) as u32, ack: numbers as u32, meta: meta as u32 }
    }

    /// Records the numbers of a side.
    pub fn set(&self, record: RecordId, direction: Direction, side: &Side) {
        self.set_numbers(record, direction, side);
        self.of(record, direction)[1].store(u64::from(side.meta), Ordering::Relaxed);
    }

    /// The same where only numbers have changed.
    #[inline]
    pub fn set_numbers(&self, record: RecordId, direction: Direction, side: &Side) {
        self.of(record, direction)[0].store(numbers(side), Ordering::Relaxed);
    }
}

fn numbers(side: &Side) -> u64 {
    u64::from(side.end) << 32 | u64::from(side.ack)
}
