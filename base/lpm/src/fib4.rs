//! IPv4 routes: a base for the control plane, a DIR-24-8 table for packets.

use crate::control::Control;
use crate::dir24_8::{CHUNK, Dir24_8, FIRST_BITS, GROUP_SIZE, Groups};
use crate::error::LpmError;
use crate::footprint::{self, Footprint};
use crate::hops::{Acquired, Hop, Route};
use crate::limits::MAX_HOPS;
use crate::prefix::Prefix;
use parking_lot::Mutex;
use std::collections::HashSet;
use thruway_sync::atomic::{AtomicU64, Ordering};
use zerocopy::FromZeros;

type Hops = [AtomicU64; MAX_HOPS + 1];
/// Every index is below [`MAX_HOPS`] + 1, a power of two: this lets the compiler know.
const INDEX_MASK: u16 = MAX_HOPS as u16;

/// So many new routes are entered in one pass over the whole table.
const MANY: usize = 64;

/// An IPv4 route table: share it in an `Arc`, look up from any thread, change it from any thread.
///
/// Lookups take no lock and see every change at once. Changes take a lock among themselves and
/// cost what the change covers: a /24 is one store, a /8 is up to 65,536, a default route is one.
///
/// ```
/// use thruway_lpm::{Fib4, Prefix4, Route4};
/// let fib = Fib4::new()?;
/// let net = Prefix4::new(0x0a00_0000, 8)?;
/// fib.insert(net, Route4 { gateway: 0xc0a8_0001, port: 1 })?;
/// assert_eq!(fib.lookup_route(0x0a01_0203).map(|route| route.port), Some(1));
/// assert_eq!(fib.lookup(0x0b00_0000), None);
/// assert_eq!(fib.dump(), "10.0.0.0/8\t192.168.0.1\t1\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Fib4 {
    control: Mutex<Writer>,
    table: Dir24_8,
    /// By index, each in one atomic so that no reader sees a gateway without its port; that of
    /// index 0 is "no route".
    hops: Box<Hops>,
}

#[derive(Debug)]
struct Writer {
    base: Control<u32>,
    groups: Groups,
}

impl Fib4 {
    /// A table without routes.
    ///
    /// # Errors
    /// [`LpmError::NoMemory`] when 48 MB of address space cannot be had (of which only what is
    /// written becomes memory).
    pub fn new() -> Result<Self, LpmError> {
        let hops = Hops::new_box_zeroed().map_err(|_| LpmError::NoMemory)?;
        hops[crate::NO_ROUTE as usize].store(Hop::NONE.0, Ordering::Relaxed);
        Ok(Fib4 {
            control: Mutex::new(Writer { base: Control::new(), groups: Groups::new() }),
            table: Dir24_8::new()?,
            hops,
        })
    }

    /// The index of the route for `addr`.
    #[inline]
    pub fn lookup(&self, addr: u32) -> Option<u32> {
        Some(u32::from(self.table.lookup(addr))).filter(|&index| index != crate::NO_ROUTE)
    }

    /// The index of the route for each of `addrs`, [`NO_ROUTE`](crate::NO_ROUTE) where there is
    /// none; see [`Dir24_8::lookup_batch`].
    ///
    /// An index means the same route until the last prefix that leads to that route is gone; if
    /// routes change meanwhile, [`Fib4::hop_batch`] never mixes two.
    #[inline]
    pub fn lookup_batch(&self, addrs: &[u32], out: &mut [u32]) {
        self.table.lookup_batch(addrs, out);
    }

    /// The route behind an index; `None` for 0 and for invalid indices.
    #[inline]
    pub fn route(&self, index: u32) -> Option<Route<u32>> {
        if index == crate::NO_ROUTE {
            return None;
        }
        self.hops.get(index as usize).map(|hop| Hop(hop.load(Ordering::Acquire)).route())
    }

    /// The route for `addr`.
    #[inline]
    pub fn lookup_route(&self, addr: u32) -> Option<Route<u32>> {
        loop {
            let epoch = self.table.epoch();
            let route = self.route(u32::from(self.table.read(addr)));
            if self.table.still(epoch) {
                return route;
            }
        }
    }

    /// The hop for each of `addrs`, in the same place of `out`; only as many as fit in both.
    #[inline]
    pub fn hop_batch(&self, addrs: &[u32], out: &mut [Hop]) {
        for (addrs, out) in addrs.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            let epoch = self.table.epoch();
            // A reader that has an index sees the hop behind it: `read_each` loads with acquire.
            let hops = &*self.hops;
            self.table.read_each(addrs, out, |index| {
                Hop(hops[usize::from(index & INDEX_MASK)].load(Ordering::Relaxed))
            });
            if !self.table.still(epoch) {
                for (out, &addr) in out.iter_mut().zip(addrs) {
                    *out = self.lookup_route(addr).map_or(Hop::NONE, Hop::new);
                }
            }
        }
    }

    /// Adds a route for a prefix that has none.
    ///
    /// # Errors
    /// When it has one, or a limit of [`LpmError`] is reached.
    pub fn insert(&self, prefix: Prefix<u32>, route: Route<u32>) -> Result<(), LpmError> {
        let mut writer = self.control.lock();
        if writer.base.rib.get(prefix).is_some() {
            return Err(LpmError::Exists);
        }
        self.set(&mut writer, prefix, route).map(|_| ())
    }

    /// Adds routes for prefixes that have none, and returns how many had one: that stays, and of
    /// several for one prefix the first. If many are added, costs one pass over the whole table.
    ///
    /// # Errors
    /// The place of the first route that exceeds a limit of [`LpmError`]. Those before it are
    /// added.
    pub fn insert_all(
        &self,
        routes: &[(Prefix<u32>, Route<u32>)],
    ) -> Result<usize, (usize, LpmError)> {
        let writer = &mut *self.control.lock();
        let (mut added, mut new_groups) = (Vec::new(), HashSet::new());
        let mut failed = None;
        for (at, &(prefix, route)) in routes.iter().enumerate() {
            if writer.base.rib.get(prefix).is_some() {
                continue;
            }
            let group = self.table.lacks(prefix).filter(|group| !new_groups.contains(group));
            let entered = match group {
                Some(_) if new_groups.len() >= writer.groups.free() => {
                    Err(LpmError::GroupsExhausted)
                }
                _ => writer.base.set(prefix, route),
            };
            match entered {
                Ok((acquired, _)) => {
                    self.publish_hop(acquired, route);
                    new_groups.extend(group);
                    added.push((prefix, acquired.taken.index));
                }
                Err(error) => {
                    failed = Some((at, error));
                    break;
                }
            }
        }
        if added.len() < MANY {
            for &(prefix, index) in &added {
                self.table.set(&mut writer.groups, &writer.base.rib, prefix, index);
            }
        } else {
            self.table.fill(&mut writer.groups, &writer.base.rib);
        }
        failed.map_or(Ok(routes.len() - added.len()), Err)
    }

    /// Sets the route of a prefix and returns the one it had.
    ///
    /// # Errors
    /// When a limit of [`LpmError`] is reached.
    pub fn replace(
        &self,
        prefix: Prefix<u32>,
        route: Route<u32>,
    ) -> Result<Option<Route<u32>>, LpmError> {
        self.set(&mut self.control.lock(), prefix, route)
    }

    /// Removes the route of a prefix and returns it.
    ///
    /// # Errors
    /// [`LpmError::NotFound`] when it has none.
    pub fn remove(&self, prefix: Prefix<u32>) -> Result<Route<u32>, LpmError> {
        let writer = &mut *self.control.lock();
        let index = writer.base.rib.remove(prefix).ok_or(LpmError::NotFound)?;
        self.table.unset(&mut writer.groups, &writer.base.rib, prefix);
        let route = writer.base.hops.get(index).ok_or(LpmError::NotFound);
        writer.base.hops.release(index);
        route
    }

    /// Removes every route.
    pub fn clear(&self) {
        let writer = &mut *self.control.lock();
        // The base is empty first, so that each prefix's addresses go straight to "no route".
        let all: Vec<_> = writer.base.rib.iter().map(|(prefix, &index)| (prefix, index)).collect();
        writer.base.rib.clear();
        for (prefix, index) in all {
            self.table.unset(&mut writer.groups, &writer.base.rib, prefix);
            writer.base.hops.release(index);
        }
    }

    /// The route of exactly this prefix.
    pub fn get(&self, prefix: Prefix<u32>) -> Option<Route<u32>> {
        self.control.lock().base.get(prefix)
    }

    /// Every prefix with its route, by address and then length.
    pub fn routes(&self) -> Vec<(Prefix<u32>, Route<u32>)> {
        self.control.lock().base.routes()
    }

    /// A line per route, in order: prefix, gateway (`-` when there is none) and port, by tabs.
    pub fn dump(&self) -> String {
        self.control.lock().base.dump()
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.control.lock().base.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of different routes, and of /24s that hold longer prefixes.
    pub fn usage(&self) -> (usize, usize) {
        let writer = self.control.lock();
        (writer.base.hops.len(), writer.groups.in_use())
    }

    /// Memory that lookups reach. (Routes behind indices are few, and not in it.)
    pub fn footprint(&self) -> Footprint {
        let writer = self.control.lock();
        let rib = &writer.base.rib;
        let first = footprint::blocks(rib, FIRST_BITS) * size_of::<u16>();
        let second = writer.groups.in_use() * GROUP_SIZE * size_of::<u16>();
        let lines = 1.0 + footprint::mean(rib, |len| f64::from(u8::from(len > FIRST_BITS)));
        Footprint { bytes: first + second, lines }
    }

    /// The forwarding table itself.
    pub fn table(&self) -> &Dir24_8 {
        &self.table
    }

    fn set(
        &self,
        writer: &mut Writer,
        prefix: Prefix<u32>,
        route: Route<u32>,
    ) -> Result<Option<Route<u32>>, LpmError> {
        if !self.table.has_room(&writer.groups, prefix) {
            return Err(LpmError::GroupsExhausted);
        }
        let (acquired, old) = writer.base.set(prefix, route)?;
        self.publish_hop(acquired, route);
        if old != Some(acquired.taken.index) {
            let index = acquired.taken.index;
            self.table.set(&mut writer.groups, &writer.base.rib, prefix, index);
        }
        let Some(old) = old else { return Ok(None) };
        let replaced = writer.base.hops.get(old);
        writer.base.hops.release(old);
        Ok(replaced)
    }

    /// Release: table entries with this index are stored after it, with release as well.
    fn publish_hop(&self, acquired: Acquired, route: Route<u32>) {
        if acquired.new {
            self.table.before_reuse(acquired.taken);
            let hop = Hop::new(route).0;
            self.hops[usize::from(acquired.taken.index)].store(hop, Ordering::Release);
        }
    }
}
