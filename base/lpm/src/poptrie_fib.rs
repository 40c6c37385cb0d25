//! Routes in a poptrie: changed in the control plane, published to readers as a whole.
//!
//! Two ways to change a poptrie under readers were considered: in place, with two copies of what
//! changes (the paper's), or by publishing a new trie that shares its unchanged parts. The second
//! needs no unsafe code, no fences in the lookup, and gives readers a burst of changes at once, all
//! or nothing. Its price is 0.4 MB copied per publication, so changes are collected: a change only
//! notes which subtree it makes stale, and [`PoptrieFib::publish`] builds each of these once.

use crate::control::Control;
use crate::error::LpmError;
use crate::hops::Route;
use crate::poptrie::{Poptrie, ROOT_BITS, slot_of};
use crate::prefix::{Key, Prefix};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    trie: Poptrie<K>,
    stale_slots: BTreeSet<usize>,
    stale_bases: BTreeSet<Prefix<K>>,
    /// Published before, kept until no reader has them: readers free nothing.
    retired: Vec<Arc<Snapshot<K>>>,
}

/// What readers see: a trie and the routes its indices mean.
#[derive(Debug)]
struct Snapshot<K> {
    trie: Poptrie<K>,
    routes: Vec<Route<K>>,
}

impl<K: Key> Default for PoptrieFib<K> {
    fn default() -> Self {
        let trie = Poptrie::new();
        let empty = Route { gateway: K::zero(), port: 0 };
        let snapshot = Snapshot { trie: trie.clone(), routes: vec![empty] };
        PoptrieFib {
            writer: Mutex::new(Writer {
                base: Control::new(),
                trie,
                stale_slots: BTreeSet::new(),
                stale_bases: BTreeSet::new(),
                retired: Vec::new(),
            }),
            published: Mutex::new(Arc::new(snapshot)),
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
        let mut writer = self.writer();
        if writer.base.rib.get(prefix).is_some() {
            return Err(LpmError::Exists);
        }
        writer.set(prefix, route).map(|_| ())
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
        self.writer().set(prefix, route)
    }

    /// Removes the route of a prefix and returns it. Readers see it until the next publication.
    ///
    /// # Errors
    /// [`LpmError::NotFound`] when it has none.
    pub fn remove(&self, prefix: Prefix<K>) -> Result<Route<K>, LpmError> {
        let mut writer = self.writer();
        let index = writer.base.rib.remove(prefix).ok_or(LpmError::NotFound)?;
        writer.touch(prefix);
        let route = writer.base.hops.get(index).ok_or(LpmError::NotFound);
        writer.base.hops.release(index);
        route
    }

    /// Removes every route. Readers see them until the next publication.
    pub fn clear(&self) {
        let mut writer = self.writer();
        writer.base = Control::new();
        writer.trie = Poptrie::new();
        writer.stale_slots.clear();
        writer.stale_bases.clear();
    }

    /// Shows readers all changes since the last publication.
    ///
    /// Costs the rebuilding of the subtrees that changed (there is one for each /16 with longer
    /// prefixes) and a copy of 0.4 MB.
    pub fn publish(&self) {
        let mut writer = self.writer();
        let snapshot = Arc::new(writer.snapshot());
        let old = {
            let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *published, snapshot)
        };
        // Release: a reader that sees this version (acquire in `refresh`) finds its snapshot, or a
        // later one, behind the lock.
        self.version.fetch_add(1, Ordering::Release);
        writer.retired.push(old);
        // Nobody can get at a retired snapshot but by the copies that are out already.
        writer.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// A reader for one thread, which sees what is published now.
    pub fn reader(self: &Arc<Self>) -> Reader<K> {
        let version = self.version.load(Ordering::Acquire);
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        Reader { fib: Arc::clone(self), version, snapshot: Arc::clone(&published) }
    }

    /// The route of exactly this prefix.
    pub fn get(&self, prefix: Prefix<K>) -> Option<Route<K>> {
        self.writer().base.get(prefix)
    }

    /// Every prefix with its route, by address and then length.
    pub fn routes(&self) -> Vec<(Prefix<K>, Route<K>)> {
        self.writer().base.routes()
    }

    /// A line per route, in order: prefix, gateway (`-` when there is none) and port, by tabs.
    pub fn dump(&self) -> String {
        self.writer().base.dump()
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.writer().base.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of different routes, and bytes of the trie as of the last publication.
    pub fn usage(&self) -> (usize, usize) {
        let writer = self.writer();
        (writer.base.hops.len(), writer.trie.bytes())
    }

    fn writer(&self) -> MutexGuard<'_, Writer<K>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.stale_bases.insert(prefix);
        } else {
            self.stale_slots.insert(slot_of(prefix.first()));
        }
    }

    fn snapshot(&mut self) -> Snapshot<K> {
        for slot in std::mem::take(&mut self.stale_slots) {
            self.trie.rebuild(&self.base.rib, slot);
        }
        for prefix in std::mem::take(&mut self.stale_bases) {
            self.trie.rebase(&self.base.rib, prefix);
        }
        let empty = Route { gateway: K::zero(), port: 0 };
        Snapshot { trie: self.trie.clone(), routes: self.base.hops.to_vec(empty) }
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
        if let Ok(published) = self.fib.published.try_lock() {
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
