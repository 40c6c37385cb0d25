//! Finds the first of at most 64 boxes that holds a key: one table a field from eight of its bits
//! to the set of boxes possible for them; the sets' intersection is seldom more than one box.
//!
//! The tree needs fewer loads, but each step of it is a branch that random traffic makes the
//! processor mispredict; here there is one, "is any box left?".

use crate::boxes::{Entry, NONE};
use crate::key::Key;

/// Steps to a box that is the only possible one: one of four fields each.
const STEPS: usize = 4;

/// Most boxes: one for each bit of a word.
pub(crate) const ENTRIES_MAX: usize = 64;

/// Eight bits of one field, and the boxes possible for each value of them.
#[derive(Clone, Debug)]
struct Slice {
    shift: u32,
    boxes: Box<[u64; 256]>,
}

/// The compiled structure.
#[derive(Clone, Debug)]
pub(crate) struct Few {
    slices: [Slice; 4],
    /// The boxes, then boxes that hold nothing: the last one is the first of an empty set.
    entries: Box<[Entry; ENTRIES_MAX + 1]>,
    count: usize,
}

impl Few {
    /// Builds the tables over at most [`ENTRIES_MAX`] boxes sorted by the place of their rule.
    pub(crate) fn build(entries: &[Entry]) -> Few {
        let slices = std::array::from_fn(|field| {
            let last_shift = if field < 2 { 24 } else { 8 };
            let shifts = (0..=last_shift).rev().step_by(4);
            let slices = shifts.map(|shift| slice(entries, field, shift));
            let best = slices.min_by_key(|s| s.boxes.iter().map(|b| b.count_ones()).sum::<u32>());
            best.unwrap_or(Slice { shift: 0, boxes: Box::new([u64::MAX; 256]) })
        });
        let count = entries.len();
        let at = |i: usize| entries.get(i).copied().unwrap_or(Entry::NOTHING);
        Few { slices, entries: Box::new(std::array::from_fn(at)), count }
    }

    /// As [`crate::box_tree::Tree::find`].
    ///
    /// PERF: computes the answer from the first possible box without a branch, as half of the
    /// traffic may match and half not; only a second candidate or a box that is but a bound takes a
    /// path of its own.
    #[inline]
    pub(crate) fn find(&self, key: &Key, kind: u32, verify: impl FnMut(u32) -> bool) -> u32 {
        let possible = |f: usize| {
            let slice = &self.slices[f];
            slice.boxes[(key.fields[f] >> slice.shift & 0xff) as usize]
        };
        let left = possible(0) & possible(1) & possible(2) & possible(3);
        let entry = &self.entries[left.trailing_zeros() as usize];
        let holds = entry.holds(&key.fields, kind);
        let others = left & left.wrapping_sub(1) != 0;
        if (!holds & others) | (holds & entry.verify) {
            return self.find_among(left, key, kind, verify);
        }
        if holds { entry.order } else { NONE }
    }

    /// The same, candidate by candidate.
    #[cold]
    fn find_among(
        &self,
        mut left: u64,
        key: &Key,
        kind: u32,
        mut verify: impl FnMut(u32) -> bool,
    ) -> u32 {
        while left != 0 {
            let entry = &self.entries[left.trailing_zeros() as usize];
            if entry.holds(&key.fields, kind) && (!entry.verify || verify(entry.order)) {
                return entry.order;
            }
            left &= left - 1;
        }
        NONE
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        4 * 256 * size_of::<u64>() + self.entries.len() * size_of::<Entry>()
    }

    /// Steps to a box, on average over all: if boxes before it are possible too, each of them is
    /// tested, and the first one twice.
    pub(crate) fn steps(&self) -> f64 {
        let meet = |a: &Entry, b: &Entry| {
            (0..4).all(|f| {
                let end = |it: &Entry| u64::from(it.lo[f]) + u64::from(it.span[f]);
                u64::from(a.lo[f]) <= end(b) && u64::from(b.lo[f]) <= end(a)
            })
        };
        let steps = |at: usize| {
            let before = self.entries[..at].iter().filter(|it| meet(it, &self.entries[at])).count();
            STEPS + if before > 0 { before + 2 } else { 0 }
        };
        (0..self.count).map(|at| steps(at) as f64).sum::<f64>() / self.count.max(1) as f64
    }

    /// The boxes.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries[..self.count]
    }
}

fn slice(entries: &[Entry], field: usize, shift: u32) -> Slice {
    let mut boxes = Box::new([0; 256]);
    for (i, e) in entries.iter().enumerate() {
        let lo = u64::from(e.lo[field]);
        let first = lo >> shift;
        let last = (lo + u64::from(e.span[field])) >> shift;
        for value in first..=last.min(first + 255) {
            boxes[(value & 0xff) as usize] |= 1_u64 << i;
        }
    }
    Slice { shift, boxes }
}
