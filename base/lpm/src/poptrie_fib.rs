//! Routes in a poptrie: changed in the control plane, published to readers as a whole.
//!
//! There are two tries, and readers have one of them. A change only records which subtree it makes
//! stale. [`PoptrieFib::publish`] takes the trie without readers, rebuilds its stale subtrees once,
//! however many changes there were, and gives it to readers instead of the other, which then has
//! the same stale subtrees and is updated next time. If some reader still holds that one, or too
//! much of it is stale, a copy of the published one replaces it.
//!
//! Against changing one trie in place under its readers (as in the paper) this needs no unsafe code
//! and no fences in the lookup, and readers see a burst of changes at once, all or nothing. Its
//! price is a second copy of the trie.

use crate::control::Control;
use crate::error::LpmError;
use crate::footprint::{self, Footprint};
use crate::hops::Route;
use crate::poptrie::{Poptrie, ROOT_BITS, slot_of};
use crate::prefix::{Key, Prefix};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use thruway_sync::atomic::{AtomicU64, Ordering};

/// IPv6 routes.
pub type Fib6 = PoptrieFib<u128>;

/// A route table over poptries. Share it in an `Arc`; each thread looks up by its own [`Reader`].
///
/// ```
/// use thruway_lpm::{Fib6, Prefix6, Route6};
/// let fib = std::sync::Arc::new(Fib6::new());
/// let net = Prefix6::new(0x2001_0db8 << 96, 32)?;
/// fib.insert(net, Route6 { gateway: 0, port: 3 })?;
/// fib.publish();
/// let reader = fib.reader();
/// assert_eq!(reader.lookup(0x2001_0db8 << 96 | 1).map(|route| route.port), Some(3));
/// assert_eq!(fib.dump(), "2001:db8::/32\t-\t3\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PoptrieFib<K: Key> {
    writer: Mutex<Writer<K>>,
    published: Mutex<Arc<Snapshot<K>>>,
    /// Counts publications, so that a reader sees by one load whether there is a new one.
    version: AtomicU64,
}

#[derive(Debug)]
struct Writer<K: Key> {
    base: Control<K>,
    /// Changes since the last publication.
    stale: Stale<K>,
    /// The trie published before the present one.
    spare: Arc<Snapshot<K>>,
    /// Changes missing in `spare` but published.
    spare_lacks: Stale<K>,
    /// Published before that, kept until no reader has them: readers free nothing.
    retired: Vec<Arc<Snapshot<K>>>,
}

/// Parts of a trie that are not as the base has them.
#[derive(Debug)]
struct Stale<K> {
    slots: BTreeSet<usize>,
    bases: BTreeSet<Prefix<K>>,
}

impl<K: Key> Stale<K> {
    fn new() -> Self {
        Stale { slots: BTreeSet::new(), bases: BTreeSet::new() }
    }

    /// Whether copying the trie costs less than building these again.
    fn is_much(&self) -> bool {
        self.slots.len() + self.bases.len() > 32
    }

    fn build(&self, trie: &mut Poptrie<K>, base: &Control<K>) {
        self.slots.iter().for_each(|&slot| trie.rebuild(&base.rib, slot));
        self.bases.iter().for_each(|&prefix| trie.rebase(&base.rib, prefix));
    }
}

/// The readers' view: a trie and the routes of its indices.
#[derive(Debug, Clone)]
struct Snapshot<K: Key> {
    trie: Poptrie<K>,
    routes: Vec<Route<K>>,
}

impl<K: Key> Snapshot<K> {
    fn empty() -> Arc<Self> {
        Arc::new(Snapshot { trie: Poptrie::new(), routes: vec![Self::no_route()] })
    }

    fn no_route() -> Route<K> {
        Route { gateway: K::zero(), port: 0 }
    }
}

impl<K: Key> Default for PoptrieFib<K> {
    fn default() -> Self {
        PoptrieFib {
            writer: Mutex::new(Writer {
                base: Control::new(),
                stale: Stale::new(),
                spare: Snapshot::empty(),
                spare_lacks: Stale::new(),
                retired: Vec::new(),
            }),
            published: Mutex::new(Snapshot::empty()),
            version: AtomicU64::new(0),
        }
    }
}

impl<K: Key> PoptrieFib<K> {
    /// A table without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route for a prefix that has none. Readers see it from the next publication on.
    ///
    /// # Errors
    /// When it has one, or there are too many different routes.
    pub fn insert(&self, prefix: Prefix<K>, route: Route<K>) -> Result<(), LpmError> {
        let mut writer = self.writer.lock();
        if writer.base.rib.get(prefix).is_some() {
            return Err(LpmError::Exists);
        }
        writer.set(prefix, route).map(|_| ())
    }

    /// Adds routes for prefixes that have none, and returns how many had one: that stays, and of
    /// several for one prefix the first. Readers see them from the next publication on.
    ///
    /// # Errors
    /// The place of the first route for which there is no room. Those before it are added.
    pub fn insert_all(&self, routes: &[(Prefix<K>, Route<K>)]) -> Result<usize, (usize, LpmError)> {
        let mut writer = self.writer.lock();
        let mut known = 0;
        for (at, &(prefix, route)) in routes.iter().enumerate() {
            if writer.base.rib.get(prefix).is_some() {
                known += 1;
            } else {
                writer.set(prefix, route).map_err(|error| (at, error))?;
            }
        }
        Ok(known)
    }

    /// Sets the route of a prefix and returns the one it had. Readers see it from the next
    /// publication on.
    ///
    /// # Errors
    /// When there are too many different routes.
    pub fn replace(
        &self,
        prefix: Prefix<K>,
        route: Route<K>,
    ) -> Result<Option<Route<K>>, LpmError> {
        self.writer.lock().set(prefix, route)
    }

    /// Removes the route of a prefix and returns it. Readers see it until the next publication.
    ///
    /// # Errors
    /// [`LpmError::NotFound`] when it has none.
    pub fn remove(&self, prefix: Prefix<K>) -> Result<Route<K>, LpmError> {
        let mut writer = self.writer.lock();
        let index = writer.base.rib.remove(prefix).ok_or(LpmError::NotFound)?;
        writer.touch(prefix);
        let route = writer.base.hops.get(index).ok_or(LpmError::NotFound);
        writer.base.hops.release(index);
        route
    }

    /// Removes every route. Readers see them until the next publication.
    pub fn clear(&self) {
        let mut writer = self.writer.lock();
        let all: Vec<_> = writer.base.rib.iter().map(|(prefix, _)| prefix).collect();
        all.into_iter().for_each(|prefix| writer.touch(prefix));
        writer.base = Control::new();
    }

    /// Shows readers all changes since the last publication.
    ///
    /// Costs the building of each subtree that changed (there is one for each /16 with longer
    /// prefixes) once for each of the two tries; after many changes a copy of the trie.
    pub fn publish(&self) {
        let mut writer = self.writer.lock();
        let next = writer.next(|| Arc::clone(&self.published.lock()));
        let old = std::mem::replace(&mut *self.published.lock(), next);
        // Release: a reader that sees this version (acquire in `refresh`) finds its snapshot, or a
        // later one, behind the lock.
        self.version.fetch_add(1, Ordering::Release);
        writer.spare = old;
        // Only existing copies reach a retired snapshot.
        writer.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// A reader for one thread, with the present publication.
    pub fn reader(self: &Arc<Self>) -> Reader<K> {
        let version = self.version.load(Ordering::Acquire);
        Reader { fib: Arc::clone(self), version, snapshot: Arc::clone(&self.published.lock()) }
    }

    /// The route of exactly this prefix.
    pub fn get(&self, prefix: Prefix<K>) -> Option<Route<K>> {
        self.writer.lock().base.get(prefix)
    }

    /// Every prefix with its route, by address and then length.
    pub fn routes(&self) -> Vec<(Prefix<K>, Route<K>)> {
        self.writer.lock().base.routes()
    }

    /// A line per route, in order: prefix, gateway (`-` when there is none) and port, by tabs.
    pub fn dump(&self) -> String {
        self.writer.lock().base.dump()
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.writer.lock().base.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of different routes, and bytes of the trie as of the last publication.
    pub fn usage(&self) -> (usize, usize) {
        (self.writer.lock().base.hops.len(), self.published.lock().trie.bytes())
    }

    /// Memory that lookups reach, as of the last publication: a slot, the nodes on the path to a
    /// prefix, and a leaf. (Routes behind indices are few, and not counted.)
    pub fn footprint(&self) -> Footprint {
        let writer = self.writer.lock();
        let rib = &writer.base.rib;
        let bytes = self.published.lock().trie.bytes_behind(footprint::blocks(rib, ROOT_BITS));
        let nodes = footprint::mean(rib, |len| Poptrie::<K>::depth(len) as f64).max(1.0);
        Footprint { bytes, lines: 1.0 + nodes + 1.0 }
    }
}

impl<K: Key> Writer<K> {
    fn set(&mut self, prefix: Prefix<K>, route: Route<K>) -> Result<Option<Route<K>>, LpmError> {
        let (_, old) = self.base.set(prefix, route)?;
        self.touch(prefix);
        let Some(old) = old else { return Ok(None) };
        let replaced = self.base.hops.get(old);
        self.base.hops.release(old);
        Ok(replaced)
    }

    fn touch(&mut self, prefix: Prefix<K>) {
        if prefix.len() <= ROOT_BITS {
            self.stale.bases.insert(prefix);
        } else {
            self.stale.slots.insert(slot_of(prefix.first()));
        }
    }

    /// The trie to publish next, up to date.
    fn next(&mut self, published: impl Fn() -> Arc<Snapshot<K>>) -> Arc<Snapshot<K>> {
        let stale = std::mem::replace(&mut self.stale, Stale::new());
        let lacks = std::mem::replace(&mut self.spare_lacks, Stale::new());
        let mut next = std::mem::replace(&mut self.spare, published());
        if lacks.is_much() || Arc::get_mut(&mut next).is_none() {
            let copy = Arc::new(Snapshot::clone(&published()));
            self.retired.push(std::mem::replace(&mut next, copy));
        } else if let Some(next) = Arc::get_mut(&mut next) {
            lacks.build(&mut next.trie, &self.base);
        }
        if let Some(next) = Arc::get_mut(&mut next) {
            stale.build(&mut next.trie, &self.base);
            next.routes = self.base.hops.to_vec(Snapshot::no_route());
        }
        self.spare_lacks = stale;
        next
    }
}

/// One thread's view of a [`PoptrieFib`]. Lookups take no lock and never wait.
#[derive(Debug)]
pub struct Reader<K: Key> {
    fib: Arc<PoptrieFib<K>>,
    version: u64,
    snapshot: Arc<Snapshot<K>>,
}

impl<K: Key> Clone for Reader<K> {
    fn clone(&self) -> Self {
        self.fib.reader()
    }
}

impl<K: Key> Reader<K> {
    /// Takes the newest publication, if there is one: once per batch, it is one load when not.
    ///
    /// When the publisher is at work this very moment it keeps the present one until next time.
    #[inline]
    pub fn refresh(&mut self) {
        let version = self.fib.version.load(Ordering::Acquire);
        if version != self.version {
            self.take(version);
        }
    }

    #[cold]
    fn take(&mut self, version: u64) {
        if let Some(published) = self.fib.published.try_lock() {
            self.snapshot = Arc::clone(&published);
            self.version = version;
        }
    }

    /// The table this reads.
    pub fn fib(&self) -> &Arc<PoptrieFib<K>> {
        &self.fib
    }

    /// The route for `key`.
    #[inline]
    pub fn lookup(&self, key: K) -> Option<Route<K>> {
        self.route(u32::from(self.snapshot.trie.lookup(key)))
    }

    /// The index of the route for each of `keys`, [`NO_ROUTE`](crate::NO_ROUTE) where there is
    /// none. Indices mean nothing after [`Reader::refresh`].
    #[inline]
    pub fn lookup_batch(&self, keys: &[K], out: &mut [u32]) {
        self.snapshot.trie.lookup_batch(keys, out);
    }

    /// The route behind an index.
    #[inline]
    pub fn route(&self, index: u32) -> Option<Route<K>> {
        if index == crate::NO_ROUTE {
            return None;
        }
        self.snapshot.routes.get(index as usize).copied()
    }
}
