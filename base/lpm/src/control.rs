//! Steps of both forwarding tables before and after a change: prefixes to indices to values.

use crate::error::LpmError;
use crate::hops::{Acquired, HopPool, Route};
use crate::prefix::{Key, Prefix};
use crate::rib::Rib;

/// Prefixes with the indices of their routes, and the routes.
#[derive(Debug)]
pub(crate) struct Control<K: Key> {
    pub rib: Rib<K, u16>,
    pub hops: HopPool<Route<K>>,
}

impl<K: Key> Control<K> {
    pub fn new() -> Self {
        Control { rib: Rib::new(), hops: HopPool::new() }
    }

    pub fn get(&self, prefix: Prefix<K>) -> Option<Route<K>> {
        self.hops.get(*self.rib.get(prefix)?)
    }

    /// Enters the route; returns its index and the one that it replaces.
    ///
    /// The old index keeps its reference: the caller lets go of it once no table entry has it.
    pub fn set(
        &mut self,
        prefix: Prefix<K>,
        route: Route<K>,
    ) -> Result<(Acquired, Option<u16>), LpmError> {
        let acquired = self.hops.acquire(route)?;
        Ok((acquired, self.rib.replace(prefix, acquired.taken.index)))
    }

    /// Every prefix with its route, in order.
    pub fn routes(&self) -> Vec<(Prefix<K>, Route<K>)> {
        let route = |(prefix, &index)| Some((prefix, self.hops.get(index)?));
        self.rib.iter().filter_map(route).collect()
    }

    /// A line per route, in order: prefix, gateway (`-` when there is none) and port, by tabs.
    pub fn dump(&self) -> String {
        self.routes().iter().map(|(prefix, route)| format!("{prefix}\t{route}\n")).collect()
    }
}

impl<K: Key> std::fmt::Display for Route<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.gateway == K::zero() {
            f.write_str("-")?;
        } else {
            self.gateway.fmt_address(f)?;
        }
        write!(f, "\t{}", self.port)
    }
}
