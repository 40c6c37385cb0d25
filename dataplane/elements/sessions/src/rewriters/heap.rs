//! A heap of times, by which the mapping that is over first is found.
//!
//! A time in the heap may be earlier than the right one, never later: packets do not touch the
//! heap, and the code that takes the first entry computes its right time. So a packet costs nothing
//! here, and a new mapping or an eviction a few comparisons.

/// When something is due, in ticks that count around, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub at: u32,
    pub index: u32,
}

/// Records the position of each entry, so that it can be found again.
pub(super) trait HeapOwner {
    fn set_heap_index(&mut self, index: u32, heap_index: u32);
}

/// Whether a time is before another one, if they are less than half the range apart.
#[inline]
pub(super) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The entries, each not before that at half its place.
#[derive(Debug, Default)]
pub(super) struct Heap(Vec<Entry>);

impl Heap {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The entry with the first time.
    pub(super) fn first(&self) -> Option<Entry> {
        self.0.first().copied()
    }

    /// Up to `count` of the entries that come first, or nearly so; the first one is the first.
    pub(super) fn next(&self, count: usize) -> &[Entry] {
        &self.0[..count.min(self.0.len())]
    }

    pub(super) fn push(&mut self, entry: Entry, owner: &mut impl HeapOwner) {
        self.0.push(entry);
        self.rise(self.0.len() - 1, owner);
    }

    /// The time of the entry at a place.
    pub(super) fn at(&self, heap_index: u32) -> Option<u32> {
        self.0.get(heap_index as usize).map(|entry| entry.at)
    }

    /// Gives the entry at a place another time.
    pub(super) fn set(&mut self, heap_index: u32, at: u32, owner: &mut impl HeapOwner) {
        let heap_index = heap_index as usize;
        let earlier = is_before(at, self.0[heap_index].at);
        self.0[heap_index].at = at;
        if earlier { self.rise(heap_index, owner) } else { self.sink(heap_index, owner) }
    }

    /// Takes the entry at a place out.
    pub(super) fn remove(&mut self, heap_index: u32, owner: &mut impl HeapOwner) {
        let heap_index = heap_index as usize;
        let Some(last) = self.0.pop() else { return };
        let Some(gone) = self.0.get(heap_index).copied() else { return };
        self.0[heap_index] = last;
        if is_before(last.at, gone.at) {
            self.rise(heap_index, owner);
        } else {
            self.sink(heap_index, owner);
        }
    }

    fn rise(&mut self, mut heap_index: usize, owner: &mut impl HeapOwner) {
        let entry = self.0[heap_index];
        while heap_index > 0 {
            let above = (heap_index - 1) / 2;
            if !is_before(entry.at, self.0[above].at) {
                break;
            }
            self.put(heap_index, self.0[above], owner);
            heap_index = above;
        }
        self.put(heap_index, entry, owner);
    }

    fn sink(&mut self, mut heap_index: usize, owner: &mut impl HeapOwner) {
        let entry = self.0[heap_index];
        loop {
            let mut below = heap_index * 2 + 1;
            let Some(left) = self.0.get(below) else { break };
            if self.0.get(below + 1).is_some_and(|right| is_before(right.at, left.at)) {
                below += 1;
            }
            if !is_before(self.0[below].at, entry.at) {
                break;
            }
            self.put(heap_index, self.0[below], owner);
            heap_index = below;
        }
        self.put(heap_index, entry, owner);
    }

    fn put(&mut self, heap_index: usize, entry: Entry, owner: &mut impl HeapOwner) {
        self.0[heap_index] = entry;
        owner.set_heap_index(entry.index, heap_index as u32);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    impl HeapOwner for HashMap<u32, u32> {
        fn set_heap_index(&mut self, index: u32, heap_index: u32) {
            self.insert(index, heap_index);
        }
    }

    proptest! {
        /// Against a list that is searched: the first is the first, around the end of time too, and
        /// every entry is where it was said to be.
        #[test]
        fn the_first_is_the_first_of_all(
            begin in any::<u32>(),
            steps in prop::collection::vec((0u8..4, 0u32..1000, any::<prop::sample::Index>()), 1..120),
        ) {
            let (mut heap, mut owner) = (Heap::default(), HashMap::new());
            let mut plain: Vec<Entry> = Vec::new();
            for (number, (what, at, which)) in steps.into_iter().enumerate() {
                let at = begin.wrapping_add(at);
                let chosen = (!plain.is_empty()).then(|| which.index(plain.len()));
                match (what, chosen) {
                    (0 | 1, _) | (_, None) => {
                        let entry = Entry { at, index: number as u32 };
                        plain.push(entry);
                        heap.push(entry, &mut owner);
                    }
                    (2, Some(chosen)) => {
                        plain[chosen].at = at;
                        heap.set(owner[&plain[chosen].index], at, &mut owner);
                    }
                    (_, Some(chosen)) => {
                        let gone = plain.swap_remove(chosen);
                        heap.remove(owner[&gone.index], &mut owner);
                        owner.remove(&gone.index);
                    }
                }
                prop_assert_eq!(heap.len(), plain.len());
                let first = plain.iter().map(|entry| entry.at.wrapping_sub(begin)).min();
                prop_assert_eq!(heap.first().map(|entry| entry.at.wrapping_sub(begin)), first);
                for entry in &plain {
                    prop_assert_eq!(heap.0[owner[&entry.index] as usize], *entry);
                }
            }
        }
    }
}
