//! A bounded hash index: numbers of entries that stand elsewhere, found by what is in them.

/// No entry.
const NONE: u32 = u32::MAX;

/// Chains of entry numbers below a bound; nothing is allocated after it is made.
pub(super) struct Chains {
    heads: Box<[u32]>,
    next: Box<[u32]>,
    seeds: [u64; 2],
}

impl Chains {
    /// An empty index of entries 0 to `capacity - 1`. `seeds` are secrets, so that no outside host
    /// can choose keys that share a chain.
    pub(super) fn new(capacity: usize, seeds: [u64; 2]) -> Chains {
        let heads = vec![NONE; capacity.max(1).next_power_of_two()];
        Chains {
            heads: heads.into_boxed_slice(),
            next: vec![NONE; capacity].into_boxed_slice(),
            seeds,
        }
    }

    /// The chain of a key.
    #[inline]
    fn chain(&self, key: u64) -> usize {
        let product = u128::from(key ^ self.seeds[0]) * u128::from(self.seeds[1] | 1);
        let mixed = (product as u64) ^ (product >> 64) as u64;
        (mixed ^ mixed >> 32) as usize & (self.heads.len() - 1)
    }

    /// The first entry under `key` that `is_it` takes. Others may share its chain.
    #[inline]
    pub(super) fn find(&self, key: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.heads[self.chain(key)];
        while at != NONE {
            if is_it(at) {
                return Some(at);
            }
            at = self.next[at as usize];
        }
        None
    }

    /// Enters an entry that is in no chain.
    pub(super) fn insert(&mut self, key: u64, entry: u32) {
        let chain = self.chain(key);
        self.next[entry as usize] = std::mem::replace(&mut self.heads[chain], entry);
    }

    /// Takes an entry out of the chain of its key.
    pub(super) fn remove(&mut self, key: u64, entry: u32) {
        let chain = self.chain(key);
        let behind = self.next[entry as usize];
        let mut at = self.heads[chain];
        if at == entry {
            self.heads[chain] = behind;
            return;
        }
        while at != NONE {
            let next = self.next[at as usize];
            if next == entry {
                self.next[at as usize] = behind;
                return;
            }
            at = next;
        }
    }
}

/// Entries of one sort under numbers that are given again once they are free.
pub(super) struct Slab<T> {
    entries: Box<[T]>,
    free: Vec<u32>,
}

impl<T: Copy + Default> Slab<T> {
    /// Room for this many.
    pub(super) fn new(capacity: usize) -> Slab<T> {
        let free = (0..capacity as u32).rev().collect();
        Slab { entries: vec![T::default(); capacity].into_boxed_slice(), free }
    }

    /// Entries in use.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Keeps an entry; `None` when there is no room.
    pub(super) fn add(&mut self, entry: T) -> Option<u32> {
        let at = self.free.pop()?;
        self.entries[at as usize] = entry;
        Some(at)
    }

    /// Gives an entry's number back.
    pub(super) fn remove(&mut self, at: u32) {
        self.entries[at as usize] = T::default();
        // Each number is there once, so the vector never grows.
        self.free.push(at);
    }

    /// An entry.
    #[inline]
    pub(super) fn get(&self, at: u32) -> &T {
        &self.entries[at as usize]
    }

    /// An entry, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.entries[at as usize]
    }

    /// All places, used or not.
    pub(super) fn slots(&self) -> &[T] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn finds_what_a_map_finds(
            steps in prop::collection::vec((any::<bool>(), 0u64..40), 0..400),
            capacity in 1usize..24, seeds: [u64; 2],
        ) {
            let (mut slab, mut chains) = (Slab::<u64>::new(capacity), Chains::new(capacity, seeds));
            let mut map = HashMap::new();
            for (add, key) in steps {
                let found = chains.find(key, |at| *slab.get(at) == key);
                prop_assert_eq!(found, map.get(&key).copied());
                match (add, found) {
                    (true, None) => {
                        let added = slab.add(key);
                        prop_assert_eq!(added.is_some(), map.len() < capacity);
                        if let Some(at) = added {
                            chains.insert(key, at);
                            map.insert(key, at);
                        }
                    }
                    (false, Some(at)) => {
                        chains.remove(key, at);
                        slab.remove(at);
                        map.remove(&key);
                    }
                    _ => {}
                }
                prop_assert_eq!(slab.len(), map.len());
            }
        }
    }
}
