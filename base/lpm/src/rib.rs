//! The routing information base: the prefixes in order, with their values.

use crate::prefix::{Key, Prefix};
use prefix_trie::PrefixMap;

/// An ordered map of prefixes: the control plane's truth, from which forwarding tables are made.
///
/// A thin layer over the trie of crate `prefix-trie`. Lookups here cost a cache miss per bit or
/// so; packets use [`Fib4`](crate::Fib4) or [`PoptrieFib`](crate::PoptrieFib).
#[derive(Debug, Clone)]
pub struct Rib<K: Key, V> {
    map: PrefixMap<(K, u8), V>,
}

impl<K: Key, V> Default for Rib<K, V> {
    fn default() -> Self {
        Rib { map: PrefixMap::new() }
    }
}

fn pair<K: Key>(prefix: Prefix<K>) -> (K, u8) {
    (prefix.first(), prefix.len())
}

fn unpair<K: Key>(&(addr, len): &(K, u8)) -> Prefix<K> {
    Prefix::truncate(addr, len)
}

impl<K: Key, V> Rib<K, V> {
    /// A base without prefixes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no prefix at all.
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// Sets the value of `prefix` and returns the one it had.
    pub fn replace(&mut self, prefix: Prefix<K>, value: V) -> Option<V> {
        self.map.insert(pair(prefix), value)
    }

    /// Adds a prefix that is not there yet.
    ///
    /// # Errors
    /// [`LpmError::Exists`](crate::LpmError::Exists) when it is.
    pub fn insert(&mut self, prefix: Prefix<K>, value: V) -> Result<(), crate::LpmError> {
        if self.get(prefix).is_some() {
            return Err(crate::LpmError::Exists);
        }
        self.map.insert(pair(prefix), value);
        Ok(())
    }

    /// Takes `prefix` out and returns its value.
    pub fn remove(&mut self, prefix: Prefix<K>) -> Option<V> {
        self.map.remove(&pair(prefix))
    }

    /// The value of exactly this prefix.
    pub fn get(&self, prefix: Prefix<K>) -> Option<&V> {
        self.map.get(&pair(prefix))
    }

    /// The longest prefix that contains `addr`.
    pub fn lookup(&self, addr: K) -> Option<(Prefix<K>, &V)> {
        self.map.get_lpm(&(addr, K::BITS)).map(|(p, v)| (unpair(p), v))
    }

    /// The prefixes that cover `prefix`, itself among them, shortest first.
    pub fn covering(&self, prefix: Prefix<K>) -> impl Iterator<Item = (Prefix<K>, &V)> {
        // The trie borrows the key it walks down by; the walk is short, so it is collected.
        let found: Vec<_> = self.map.cover(&pair(prefix)).map(|(p, v)| (unpair(p), v)).collect();
        found.into_iter()
    }

    /// The prefixes that `prefix` covers, itself among them, in order.
    pub fn covered(&self, prefix: Prefix<K>) -> impl Iterator<Item = (Prefix<K>, &V)> {
        self.map.children(&pair(prefix)).map(|(p, v)| (unpair(p), v))
    }

    /// Every prefix, in order of address and then length.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, &V)> {
        self.map.iter().map(|(p, v)| (unpair(p), v))
    }

    /// Takes every prefix out.
    pub fn clear(&mut self) {
        self.map = PrefixMap::new();
    }
}
