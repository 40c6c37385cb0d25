//! Address resolution, for ARPQuerier (RFC 826) and IP6NDSolicitor (RFC 4861 section 7.2): puts
//! Ethernet headers on packets whose next hop is known, holds the others, says what to ask for.
//!
//! The [`Table`] is shared by the replicas of an element, under a lock. Each replica keeps the
//! finished Ethernet headers of the addresses it used last in a small cache of its own, which is
//! what packets see: a hit takes no lock, computes nothing and allocates nothing. The shared
//! generation number changes whenever a cached header may have become wrong.

mod address;
pub mod config;
mod questioner;
mod table;

use std::any::Any;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use thruway_element::{Args, Cost, Cx, Load, Operation, Reason, reasons};
use thruway_elements_support::links::Links;
use thruway_elements_support::reaching::looking_up;
use thruway_packet::{Anno, Batch, Packet};
use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thruway_wire::ethernet::EthernetHeader;
use thruway_wire::{Header, MacAddr};

pub use address::Address;
pub use questioner::Questioner;
pub use table::{Limits, Row, Table};

reasons! {
    /// Why a packet does not come out of a resolver.
    pub enum Lost {
        NoAddress = "no-address": "its next hop annotation is not set",
        Unresolved = "unresolved": "no answer came before TIMEOUT, or too many packets waited",
        Answer = consumed "answer": "ARP reply learned",
        BadAnswer = "bad-answer": "a packet at input 1 that is no valid answer",
        NotConfigured = "not-configured": "the element's own address is not set",
    }
}

/// Entries at most, where the user wants no bound: a guard against scans.
pub const ENTRIES_MAX: usize = 65_536;

/// Ethernet headers in a replica's cache.
const CACHE_BITS: u32 = 9;

/// An Ethernet header ready to be put in front of a packet.
type Prefix = [u8; EthernetHeader::LEN];

#[derive(Clone, Copy)]
struct Cached<A> {
    address: A,
    header: Prefix,
    until: i64,
    generation: u64,
}

/// The shared state of the replicas of an element, and of those that use its table (ARPTable).
pub struct Shared<A> {
    table: Mutex<Table<A>>,
    generation: AtomicU64,
    /// There is an element that holds it, not only one that asks for it.
    held: AtomicBool,
}

impl<A: Address> Shared<A> {
    /// That of the element of this (full) name, which need not be there (yet).
    fn of(args: &Args<'_>, element: &str, limits: Limits) -> Option<Arc<Shared<A>>> {
        args.env().shared.get(element, "addresses", || Shared {
            table: Mutex::new(Table::new(limits)),
            generation: AtomicU64::new(1),
            held: AtomicBool::new(false),
        })
    }

    /// That of the element being built, which holds it.
    pub fn hold(args: &Args<'_>, limits: Limits) -> Arc<Shared<A>> {
        // No other element's code asks for this key with another type under this name.
        let shared = Shared::of(args, args.name(), limits).expect("one type per key");
        shared.table.lock().set_limits(limits);
        if !shared.held.swap(true, Ordering::Relaxed) {
            let table = Arc::downgrade(&shared);
            Links::of(args).on_loss(Box::new(move || {
                if let Some(shared) = table.upgrade() {
                    shared.change(Table::doubt);
                }
            }));
        }
        shared
    }

    /// Entries, and packets that wait.
    pub fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.len(), table.packets())
    }

    /// Shows every entry, the oldest first.
    pub fn show(&self, now: i64, mut line: impl FnMut(Row<A>)) {
        self.table.lock().rows(now).for_each(&mut line);
    }

    /// Does something to the table, and lets all that have copies of its entries look again.
    pub fn change<T>(&self, change: impl FnOnce(&mut Table<A>) -> T) -> T {
        let result = change(&mut self.table.lock());
        self.generation.fetch_add(1, Ordering::Relaxed);
        result
    }
}

/// A question that the element has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<A> {
    /// The address to resolve.
    pub address: A,
    /// Destination of the query, if the address was known; else all hosts.
    pub to: Option<MacAddr>,
    /// Timestamp of the packet that is the reason.
    pub timestamp: i64,
    /// VLAN tag of that packet.
    pub vlan: u32,
}

impl<A> Query<A> {
    fn new(address: A, to: Option<MacAddr>, reason: &Packet) -> Query<A> {
        let (timestamp, vlan) = (reason.timestamp(), reason.anno_number(Anno::VLAN_TCI));
        Query { address, to, timestamp, vlan }
    }

    /// The question's packet, marked like the one that is its reason.
    pub fn packet(&self, cx: &mut Cx<'_>, bytes: &[u8]) -> Option<Packet> {
        let mut packet = cx.packet(bytes)?;
        packet.set_timestamp(self.timestamp);
        packet.set_anno_number(Anno::VLAN_TCI, self.vlan);
        packet.set_mac_offset(0);
        Some(packet)
    }
}

/// The state passed to the next configuration.
struct Inherited<A> {
    /// The element's address, its Ethernet address, and the broadcast address.
    own: (A, MacAddr, A),
    table: Table<A>,
}

/// One replica's resolver.
pub struct Resolver<A> {
    shared: Arc<Shared<A>>,
    /// Of the elements that may be meant by TABLE, until it is known which there is.
    meant: Vec<Arc<Shared<A>>>,
    limits: Limits,
    cache: Box<[Cached<A>]>,
    /// The shared generation as of the beginning of this batch.
    generation: u64,
    mac: MacAddr,
    broadcast: A,
    /// Questions that the element has to send.
    pub queries: Vec<Query<A>>,
    /// Packets dropped, for the `drops` handler.
    pub drops: u64,
    unknown: Batch,
    ready: Batch,
    lost: Batch,
}

impl<A: Address> Resolver<A> {
    /// A resolver for the element being built, which sends frames from `mac`; packets to
    /// `broadcast` go to all ([`Address::UNSET`] for none).
    pub fn new(args: &Args<'_>, limits: Limits, mac: MacAddr, broadcast: A) -> Resolver<A> {
        Resolver::over(Shared::hold(args, limits), limits, mac, broadcast)
    }

    /// The same with the table of the element called `name`, see [`find_table`](Self::find_table).
    pub fn with_table(
        args: &Args<'_>,
        name: &str,
        limits: Limits,
        own: (MacAddr, A),
    ) -> Resolver<A> {
        let names = args.meanings(name);
        let meant = names.iter().filter_map(|name| Shared::of(args, name, limits)).collect();
        let mut resolver = Resolver::over(Shared::hold(args, limits), limits, own.0, own.1);
        resolver.meant = meant;
        resolver
    }

    /// Finds the shared table, once all elements exist; false if no element has it.
    pub fn find_table(&mut self) -> bool {
        let is_held = |shared: &Arc<Shared<A>>| shared.held.load(Ordering::Relaxed);
        let Some(shared) = std::mem::take(&mut self.meant).into_iter().find(is_held) else {
            return false;
        };
        shared.table.lock().set_poll_timeout(self.limits.poll_timeout);
        self.shared = shared;
        true
    }

    fn over(shared: Arc<Shared<A>>, limits: Limits, mac: MacAddr, broadcast: A) -> Resolver<A> {
        // Generation 0 never is: these are no entries.
        let none = Cached { address: A::UNSET, header: [0; 14], until: 0, generation: 0 };
        Resolver {
            shared,
            meant: Vec::new(),
            limits,
            cache: vec![none; 1 << CACHE_BITS].into(),
            generation: 1,
            mac,
            broadcast,
            queries: Vec::new(),
            drops: 0,
            unknown: Batch::new(),
            ready: Batch::new(),
            lost: Batch::new(),
        }
    }

    /// The cost of a packet: a look at the cache, and its header.
    pub fn cost(&self, load: &Load) -> Vec<Cost> {
        let (known, _) = self.shared.counts();
        let cached = (known.min(self.cache.len()), size_of::<Cached<A>>());
        let found = looking_up(Operation::ArrayLookup.once(), cached, 1.0, load);
        vec![found, Operation::HeaderMove.once(), Operation::HeaderWrite.once()]
    }

    /// Puts an Ethernet header on the packets of a batch with a resolved next hop; the others leave
    /// the batch and wait. Keeps the order. Afterwards the element sends `queries`.
    pub fn encapsulate(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        // Relaxed: the number only says that the table, behind its lock, should be asked again.
        self.generation = self.shared.generation.load(Ordering::Relaxed);
        let mut unknown = std::mem::take(&mut self.unknown);
        let mut no_memory = 0;
        batch.extract(
            |packet| {
                let address = A::of(packet);
                let cached = &self.cache[slot(address)];
                let is_good = cached.address == address && cached.generation == self.generation;
                let pushed = match is_good && now < cached.until {
                    true => packet.push_mac(&cached.header),
                    false => match self.look_up(address, packet, now) {
                        Some(header) => packet.push_mac(&header),
                        None => return Some(false),
                    },
                };
                (!pushed).then_some(true)
            },
            |packet, known| match known {
                true => {
                    no_memory += 1;
                    cx.drop(Reason::NO_MEMORY, packet);
                }
                false => unknown.push(packet),
            },
        );
        self.drops += no_memory;
        if cx.is_probe() {
            unknown.clear(); // It is not to be sent later.
        } else if !unknown.is_empty() {
            self.hold(cx, &mut unknown);
        }
        self.unknown = unknown;
    }

    /// The Ethernet header for a packet, when its next hop is known.
    #[cold]
    fn look_up(&mut self, address: A, packet: &Packet, now: i64) -> Option<Prefix> {
        let shared = Arc::clone(&self.shared);
        let mut table = shared.table.lock();
        // Under the lock: the entry below is at least as new as this number.
        let generation = shared.generation.load(Ordering::Relaxed);
        let (mac, until) = match table.look_up(address, now) {
            Some(known) => {
                if known.poll {
                    let to = (!known.to_all).then_some(known.mac);
                    self.queries.push(Query::new(address, to, packet));
                }
                (known.mac, known.until)
            }
            None if address == A::UNSET => return None,
            None if address == self.broadcast => (MacAddr::BROADCAST, i64::MAX),
            None => (address.group()?, i64::MAX),
        };
        let mut header = [0; EthernetHeader::LEN];
        // It has just that length.
        let _ = EthernetHeader::new(mac, self.mac, A::ETHERTYPE).emit(&mut header);
        self.cache[slot(address)] = Cached { address, header, until, generation };
        Some(header)
    }

    /// Lets packets wait for their next hops.
    #[cold]
    fn hold(&mut self, cx: &mut Cx<'_>, unknown: &mut Batch) {
        let now = cx.now();
        let shared = Arc::clone(&self.shared);
        let mut table = shared.table.lock();
        for packet in unknown.drain() {
            let address = A::of(&packet);
            if address == A::UNSET {
                self.drops += 1;
                cx.drop(Lost::NoAddress, packet);
                continue;
            }
            // Another thread may have learnt it since this one looked.
            if table.entry(address, now).flatten().is_some() {
                self.ready.push(packet);
                continue;
            }
            let query = Query::new(address, None, &packet);
            if table.wait(address, packet, now, &mut self.lost) {
                self.queries.push(query);
            }
        }
        Self::finish_change(&shared, table);
        self.drop_lost(cx);
        self.send_ready(cx);
    }

    /// Lets all replicas look again when the table says that their copies are void.
    fn finish_change(shared: &Shared<A>, mut table: MutexGuard<'_, Table<A>>) {
        if table.take_forgot() {
            shared.generation.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An answer came, or a user's word: `address` is at `mac` (with the broadcast address: is no
    /// longer known). What waited for it is sent out of output 0.
    pub fn learn(&mut self, cx: &mut Cx<'_>, address: A, mac: MacAddr) {
        let now = cx.now();
        let shared = Arc::clone(&self.shared);
        let mut table = shared.table.lock();
        let is_moved = table.entry(address, now).flatten().is_some_and(|before| before != mac);
        if is_moved && let Some(flows) = cx.flows() {
            flows.forget_short_cuts();
        }
        table.insert(address, mac, now, (&mut self.ready, &mut self.lost));
        Self::finish_change(&shared, table);
        self.drop_lost(cx);
        self.send_ready(cx);
    }

    /// Sends packets that need not wait any more.
    fn send_ready(&mut self, cx: &mut Cx<'_>) {
        if self.ready.is_empty() {
            return;
        }
        // By the path of all packets: a new entry may already have been evicted.
        let mut ready = std::mem::take(&mut self.ready);
        self.encapsulate(cx, &mut ready);
        cx.emit_all(0, &mut ready);
        self.ready = ready;
    }

    /// The entry of an address: `None` when there is none, `Some(None)` while it is asked for.
    pub fn entry(&self, address: A, now: i64) -> Option<Option<MacAddr>> {
        self.shared.table.lock().entry(address, now)
    }

    /// Forgets all and drops what waits.
    pub fn clear(&mut self, cx: &mut Cx<'_>) {
        self.shared.table.lock().clear(&mut self.lost);
        self.shared.generation.fetch_add(1, Ordering::Relaxed);
        self.drop_lost(cx);
    }

    /// Forgets what is too old.
    pub fn expire(&mut self, cx: &mut Cx<'_>) {
        let shared = Arc::clone(&self.shared);
        let mut table = shared.table.lock();
        table.slim(cx.now(), &mut self.lost);
        Self::finish_change(&shared, table);
        self.drop_lost(cx);
    }

    /// Gives the table up to the resolver that replaces this one (hot swap). `own` is the element's
    /// address.
    pub fn hand_over(&mut self, own: A) -> Box<dyn Any + Send> {
        let empty = Table::new(self.limits);
        let table = std::mem::replace(&mut *self.shared.table.lock(), empty);
        Box::new(Inherited { own: (own, self.mac, self.broadcast), table })
    }

    /// Takes the table of the resolver that this one replaces, if it was for the same addresses.
    pub fn take_over(&mut self, own: A, state: Box<dyn Any + Send>) {
        if let Ok(state) = state.downcast::<Inherited<A>>()
            && state.own == (own, self.mac, self.broadcast)
        {
            self.shared.table.lock().adopt(state.table);
        }
    }

    /// The broadcast address.
    pub fn broadcast(&self) -> A {
        self.broadcast
    }

    /// Changes it.
    pub fn set_broadcast(&mut self, broadcast: A) {
        self.broadcast = broadcast;
        self.shared.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// The table and what belongs to it.
    pub fn shared(&self) -> &Shared<A> {
        &self.shared
    }

    fn drop_lost(&mut self, cx: &mut Cx<'_>) {
        if !self.lost.is_empty() {
            self.drops += self.lost.len() as u64;
            cx.drop_all(Lost::Unresolved, &mut self.lost);
        }
    }
}

#[inline]
fn slot<A: Address>(address: A) -> usize {
    // Fibonacci hashing: neighbours in a subnet differ in their low bits only.
    (address.spread().wrapping_mul(0x9e37_79b1) >> (32 - CACHE_BITS)) as usize
}
