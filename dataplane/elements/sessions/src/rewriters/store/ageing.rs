//! Which mapping has to go: those that are guaranteed stay, of the others the one that is over
//! first.

use zerocopy::FromBytes;

use super::{CAPACITY_MAX, GUARANTEED, Key, Limits, Mapping, STEPS_MAX, Store, owner_of};
use crate::rewriters::heap::{Entry, is_before};

impl Store {
    /// When a mapping's guarantee ends, and when its time is up.
    pub(super) fn times(&self, index: u32) -> (u32, u32) {
        let Some((limits, seen, state)) = self.known(index) else {
            let seen = self.pool.head(index).seen;
            return (seen, seen);
        };
        let limit = limits.by_state[usize::from(state & 15)];
        (seen.wrapping_add(limits.guarantee), seen.wrapping_add(limit))
    }

    /// A mapping's time is up earlier than it was.
    #[cold]
    pub(super) fn hasten(&mut self, index: u32) {
        let (_, over) = self.times(index);
        let Ok(mapping) = Mapping::ref_from_bytes(self.pool.scratch(index)) else { return };
        let heap_index = mapping.heap_index;
        if self.others.at(heap_index).is_some_and(|at| is_before(over, at)) {
            self.others.set(heap_index, over, &mut self.pool);
        }
    }

    /// Moves an entry to the other heap.
    fn shift(&mut self, index: u32, at: u32, to_guaranteed: bool) {
        let Ok(mapping) = Mapping::mut_from_bytes(self.pool.scratch_mut(index)) else { return };
        let heap_index = mapping.heap_index & !GUARANTEED;
        mapping.heap_index = if to_guaranteed { GUARANTEED } else { 0 };
        let (from, to) = match to_guaranteed {
            true => (&mut self.others, &mut self.guaranteed),
            false => (&mut self.guaranteed, &mut self.others),
        };
        from.remove(heap_index, &mut self.pool);
        to.push(Entry { at, index }, &mut self.pool);
    }

    /// Inspects up to `steps` mappings for ended guarantees.
    fn release_guarantees(&mut self, now: u32, steps: usize) {
        for _ in 0..steps {
            let Some(first) = self.guaranteed.first().filter(|entry| !is_before(now, entry.at))
            else {
                return;
            };
            let (guarantee, over) = self.times(first.index);
            if is_before(now, guarantee) {
                self.guaranteed.set(0, guarantee, &mut self.pool);
            } else {
                self.shift(first.index, over, false);
            }
        }
    }

    /// The mapping that is over first, of those that are not guaranteed.
    pub(super) fn victim(&mut self, now: u32, steps: usize) -> Option<Entry> {
        self.release_guarantees(now, steps);
        for _ in 0..steps {
            let first = self.others.first()?;
            let (guarantee, over) = self.times(first.index);
            if is_before(now, guarantee) {
                self.shift(first.index, guarantee, true);
            } else if is_before(first.at, over) {
                self.others.set(0, over, &mut self.pool);
            } else {
                return Some(first);
            }
        }
        None
    }

    /// Idle time of a mapping, in ticks, if it is evictable.
    pub(in crate::rewriters) fn yields(&self, key: &Key, now: u32) -> Option<u32> {
        let index = self.pool.find(key).index()?;
        let (limits, seen, state) = self.known(index)?;
        let is_evictable = limits.yields >> (state & 63) & 1 != 0;
        is_evictable.then(|| now.wrapping_sub(seen))
    }

    /// The evictable mapping that is first to lose its guarantee: a flood of unanswered mappings
    /// would otherwise keep all others out.
    pub(super) fn unanswered(&self) -> Option<Entry> {
        let is_evictable = |entry: &&Entry| {
            let known = self.known(entry.index);
            known.is_some_and(|(limits, _, state)| {
                !limits.is_promised && limits.yields >> (state & 63) & 1 != 0
            })
        };
        self.guaranteed.next(STEPS_MAX).iter().find(is_evictable).copied()
    }

    /// A mapping's limits, the time of its last packet, and its state.
    fn known(&self, index: u32) -> Option<(&Limits, u32, u8)> {
        let head = self.pool.head(index);
        let last = self.pool.key(index)[3];
        let mapping = Mapping::ref_from_bytes(self.pool.scratch(index)).ok()?;
        let (seen, state) = self.latest(mapping.shared_flows, head.seen, head.state);
        Some((self.owners.get(owner_of(last))?.limits(last), seen, state))
    }

    /// Removes the next expired mappings that are due; returns whether there may be more.
    pub(in crate::rewriters) fn reap(&mut self, now: u32) -> bool {
        for _ in 0..STEPS_MAX {
            match self.victim(now, STEPS_MAX) {
                Some(victim) if !is_before(now, victim.at) => self.end(victim.index),
                Some(_) => return false,
                None => return self.others.first().is_some(),
            }
        }
        true
    }

    /// Changes how many there may be; those that are over first make room.
    pub(in crate::rewriters) fn set_capacity(&mut self, capacity: u32, now: u32) {
        self.capacity = capacity.min(CAPACITY_MAX);
        while self.len() > self.capacity as usize {
            let all = self.len();
            let first = self.victim(now, all * 2).or_else(|| self.guaranteed.first());
            let Some(first) = first else { return };
            self.end(first.index);
        }
    }
}
