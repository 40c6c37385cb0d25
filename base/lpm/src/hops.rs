//! Route values, each held once however many prefixes lead to it.

use crate::error::LpmError;
use crate::limits::MAX_HOPS;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The index that means "no route".
pub const NO_ROUTE: u32 = 0;

/// Freed indices wait until this many are waiting before one is used again, so that a table under
/// steady change does not hand the same index straight to another value.
pub(crate) const QUARANTINE: usize = 64;

/// The target of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Route<K> {
    /// The next router's address, or 0 when the destination is on the link.
    pub gateway: K,
    /// The output port.
    pub port: u32,
}

/// An IPv4 [`Route`] in one word, as packets want it: no branch between "route" and "no route".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Hop(pub(crate) u64);

impl Hop {
    /// No route: port `u32::MAX`, gateway 0.
    pub const NONE: Hop = Hop(u32::MAX as u64);

    /// The hop of a route.
    #[inline]
    pub fn new(route: Route<u32>) -> Hop {
        Hop(u64::from(route.gateway) << 32 | u64::from(route.port))
    }

    /// The next router's address, or 0 when the destination is on the link.
    #[inline]
    pub const fn gateway(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The output port, `u32::MAX` when there is no route.
    #[inline]
    pub const fn port(self) -> u32 {
        self.0 as u32
    }

    /// The route of a hop that is not [`Hop::NONE`].
    #[inline]
    pub fn route(self) -> Route<u32> {
        Route { gateway: self.gateway(), port: self.port() }
    }
}

/// Hands out indices 1 to `limit`: fresh ones first, freed ones oldest first.
#[derive(Debug)]
pub(crate) struct IndexPool {
    highest: u16,
    limit: u16,
    freed: VecDeque<u16>,
}

/// An index from an [`IndexPool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub index: u16,
    /// It has meant something else before: readers may still know it by that.
    pub reused: bool,
}

impl IndexPool {
    pub fn new(limit: u16) -> Self {
        IndexPool { highest: 0, limit, freed: VecDeque::new() }
    }

    pub fn is_exhausted(&self) -> bool {
        self.highest == self.limit && self.freed.is_empty()
    }

    pub fn take(&mut self) -> Option<Taken> {
        if self.freed.len() < QUARANTINE && self.highest < self.limit {
            self.highest += 1;
            return Some(Taken { index: self.highest, reused: false });
        }
        self.freed.pop_front().map(|index| Taken { index, reused: true })
    }

    pub fn give_back(&mut self, index: u16) {
        self.freed.push_back(index);
    }

    /// How many indices are out.
    pub fn in_use(&self) -> usize {
        usize::from(self.highest) - self.freed.len()
    }
}

/// Values with a reference count each, found by value or by index.
#[derive(Debug)]
pub(crate) struct HopPool<V> {
    /// By index less one; `None` while the index is free.
    slots: Vec<Option<(V, u32)>>,
    by_value: HashMap<V, u16>,
    indices: IndexPool,
}

/// The answer of [`HopPool::acquire`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acquired {
    pub taken: Taken,
    /// The value was not in the pool before: readers must learn of it.
    pub new: bool,
}

impl<V: Copy + Eq + Hash> HopPool<V> {
    pub fn new() -> Self {
        let indices = IndexPool::new(MAX_HOPS as u16);
        HopPool { slots: Vec::new(), by_value: HashMap::new(), indices }
    }

    /// The index of `value`, one reference more.
    pub fn acquire(&mut self, value: V) -> Result<Acquired, LpmError> {
        if let Some(&index) = self.by_value.get(&value) {
            if let Some((_, references)) = &mut self.slots[usize::from(index) - 1] {
                *references += 1;
            }
            return Ok(Acquired { taken: Taken { index, reused: false }, new: false });
        }
        let taken = self.indices.take().ok_or(LpmError::HopsExhausted)?;
        let slot = usize::from(taken.index) - 1;
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some((value, 1));
        self.by_value.insert(value, taken.index);
        Ok(Acquired { taken, new: true })
    }

    /// One reference less; with the last one the index is free.
    pub fn release(&mut self, index: u16) {
        let Some(slot) = self.slots.get_mut(usize::from(index).wrapping_sub(1)) else { return };
        let Some((value, references)) = slot else { return };
        *references -= 1;
        if *references == 0 {
            self.by_value.remove(value);
            *slot = None;
            self.indices.give_back(index);
        }
    }

    pub fn get(&self, index: u16) -> Option<V> {
        let slot = self.slots.get(usize::from(index).checked_sub(1)?)?;
        slot.map(|(value, _)| value)
    }

    /// Number of different values.
    pub fn len(&self) -> usize {
        self.indices.in_use()
    }

    /// Every value by its index, `empty` at index 0 and where an index is free.
    pub fn to_vec(&self, empty: V) -> Vec<V> {
        let slots = self.slots.iter().map(|slot| slot.map_or(empty, |(value, _)| value));
        std::iter::once(empty).chain(slots).collect()
    }
}
