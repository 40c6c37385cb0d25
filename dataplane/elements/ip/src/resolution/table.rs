//! The table behind ARPQuerier and IP6NDSolicitor: Ethernet addresses by next hop, and packets that
//! wait for an answer. Plain state: no locks, no clock, no packets sent.
//!
//! Entries stand in a list by age, the one that was confirmed longest ago first; so expiry looks at
//! the front only.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;

/// Queries that go to the address that is known before all stations are asked, because it may be
/// another one's now: MAX_UNICAST_SOLICIT (RFC 4861 section 10), and what Linux does for ARP.
const UNICAST_QUERIES: u8 = 3;
/// Queries that go unanswered before an address is asked for less often.
const EAGER_QUERIES: u8 = 10;

/// The bounds of a table. Times are in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Packets that may wait in all; 0 for no bound but that of packet memory.
    pub packets: usize,
    /// Entries, waiting and known.
    pub entries: usize,
    /// Packets that may wait for one address; 0 for no bound of its own.
    pub entry_packets: usize,
    /// When `packets` is exceeded, this fraction (1/n) of them is dropped.
    pub slim_factor: usize,
    /// An entry not confirmed for so long is forgotten; 0 for never.
    pub timeout: i64,
    /// An entry not confirmed for so long is asked for again while it is used; 0 for never.
    pub poll_timeout: i64,
    /// Shortest time between two queries for one address.
    pub query_interval: i64,
    /// The same after [`EAGER_QUERIES`] in vain.
    pub query_interval_late: i64,
}

/// "None" in the list of ages.
const NIL: u32 = u32::MAX;

struct Entry<K> {
    key: K,
    mac: MacAddr,
    known: bool,
    /// When it was last confirmed (or, never confirmed, first asked for).
    live_at: i64,
    /// When the last query went out.
    polled_at: i64,
    /// Queries since the last answer.
    polls: u8,
    waiting: VecDeque<Packet>,
    older: u32,
    newer: u32,
}

impl<K> Entry<K> {
    fn expired(&self, now: i64, limits: &Limits) -> bool {
        limits.timeout != 0 && self.live_at.saturating_add(limits.timeout) < now
    }

    /// Notes a query, if one is due.
    fn poll(&mut self, now: i64, limits: &Limits) -> bool {
        let interval = match self.polls {
            EAGER_QUERIES.. => limits.query_interval_late,
            _ => limits.query_interval,
        };
        if now < self.polled_at.saturating_add(interval) {
            return false;
        }
        self.polled_at = now;
        self.polls = self.polls.saturating_add(1);
        true
    }
}

/// A known address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Where it is.
    pub mac: MacAddr,
    /// A query should be sent, to see whether it still is.
    pub poll: bool,
    /// The query goes to all, for that address did not answer.
    pub to_all: bool,
    /// Up to this time the answer stays the same and no query is due.
    pub until: i64,
}

/// One line of the `table` handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<K> {
    /// The address.
    pub key: K,
    /// Whether it is known and not too old.
    pub known: bool,
    /// Where it is or was; the broadcast address when never known.
    pub mac: MacAddr,
    /// Nanoseconds since it was confirmed.
    pub age: i64,
}

/// See the module.
pub struct Table<K> {
    map: HashMap<K, u32>,
    entries: Vec<Entry<K>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    packets: usize,
    limits: Limits,
    forgot: bool,
}

impl<K: Copy + Eq + Hash> Table<K> {
    /// An empty table.
    pub fn new(limits: Limits) -> Table<K> {
        Table {
            map: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            oldest: NIL,
            newest: NIL,
            packets: 0,
            limits,
            forgot: false,
        }
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Packets that wait.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Where `key` is, if that is known.
    pub fn look_up(&mut self, key: K, now: i64) -> Option<Known> {
        let limits = self.limits;
        let entry = &mut self.entries[*self.map.get(&key)? as usize];
        if !entry.known || entry.expired(now, &limits) {
            return None;
        }
        let mut until = match limits.timeout {
            0 => i64::MAX,
            timeout => entry.live_at.saturating_add(timeout),
        };
        let mut poll = false;
        if limits.poll_timeout != 0 {
            let due = entry.live_at.saturating_add(limits.poll_timeout);
            if now >= due {
                poll = entry.poll(now, &limits);
                until = until.min(entry.polled_at.saturating_add(limits.query_interval));
            } else {
                until = until.min(due);
            }
        }
        let to_all = entry.polls > UNICAST_QUERIES;
        Some(Known { mac: entry.mac, poll, to_all, until })
    }

    /// Whether an entry was changed or removed since this was last asked, so that copies are void.
    pub fn take_forgot(&mut self) -> bool {
        std::mem::take(&mut self.forgot)
    }

    /// Lets a packet wait until `key` is known. Packets that lose their place go to `lost`. True
    /// when a query should be sent.
    pub fn wait(&mut self, key: K, packet: Packet, now: i64, lost: &mut Batch) -> bool {
        let at = self.ensure(key, now, lost);
        self.keep_alive(at, now);
        let bound = self.limits.entry_packets;
        if bound != 0 && self.entries[at as usize].waiting.len() >= bound {
            lost.push(packet);
            return false;
        }
        self.packets += 1;
        if self.limits.packets != 0 && self.packets > self.limits.packets {
            self.slim(now, lost);
        }
        let limits = self.limits;
        let entry = &mut self.entries[at as usize];
        entry.waiting.push_back(packet);
        entry.poll(now, &limits)
    }

    /// Changes the bounds; what is beyond goes when something is added.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Changes when an address in use is asked for again.
    pub fn set_poll_timeout(&mut self, poll_timeout: i64) {
        self.limits.poll_timeout = poll_timeout;
    }

    /// Enters where `key` is, or with the broadcast address that it is no longer known. What
    /// waited for it goes to `ready`, in order of arrival.
    pub fn insert(&mut self, key: K, mac: MacAddr, now: i64, out: (&mut Batch, &mut Batch)) {
        let (ready, lost) = out;
        let at = self.set(key, mac, now, lost);
        let entry = &mut self.entries[at as usize];
        if entry.known {
            self.packets -= entry.waiting.len();
            ready.extend(entry.waiting.drain(..));
        }
    }

    /// The same, but what waits goes on waiting: for an answer, or to be too old. The entry.
    pub fn set(&mut self, key: K, mac: MacAddr, now: i64, lost: &mut Batch) -> u32 {
        let at = self.ensure(key, now, lost);
        self.unlink(at);
        self.link_before(NIL, at);
        let late = now.saturating_sub(self.limits.query_interval_late);
        let entry = &mut self.entries[at as usize];
        let known = !mac.is_broadcast();
        let changed = entry.known != known || entry.mac != mac;
        self.forgot |= changed;
        (entry.mac, entry.known) = (mac, known);
        (entry.live_at, entry.polled_at, entry.polls) = (now, late, 0);
        at
    }

    /// Whether there is an entry for `key`, known or asked for; and where it is, when known.
    pub fn entry(&self, key: K, now: i64) -> Option<Option<MacAddr>> {
        let entry = &self.entries[*self.map.get(&key)? as usize];
        Some((entry.known && !entry.expired(now, &self.limits)).then_some(entry.mac))
    }

    /// Takes all that another table has, under its own limits. Nothing is taken from an empty one.
    pub fn adopt(&mut self, other: Table<K>) {
        if other.len() > 0 {
            *self = Table { limits: self.limits, forgot: true, ..other };
        }
    }

    /// Knows no address any more, because a link was lost: each is asked for with the next packet.
    /// Waiting packets continue to wait. Entries that live for ever stay.
    pub fn doubt(&mut self) {
        if self.limits.timeout == 0 {
            return;
        }
        for entry in &mut self.entries {
            (entry.known, entry.polled_at, entry.polls) = (false, i64::MIN, 0);
        }
        self.forgot = true;
    }

    /// Forgets everything; what waited goes to `lost`.
    pub fn clear(&mut self, lost: &mut Batch) {
        for entry in &mut self.entries {
            lost.extend(entry.waiting.drain(..));
        }
        self.map.clear();
        self.entries.clear();
        self.free.clear();
        (self.oldest, self.newest, self.packets) = (NIL, NIL, 0);
    }

    /// Forgets what is too old or too much.
    pub fn slim(&mut self, now: i64, lost: &mut Batch) {
        while self.oldest != NIL {
            let expired = self.entries[self.oldest as usize].expired(now, &self.limits);
            if !expired && self.map.len() <= self.limits.entries {
                break;
            }
            self.remove(self.oldest, lost);
        }
        if self.limits.packets != 0 && self.packets > self.limits.packets {
            self.slim_packets(lost);
        }
    }

    /// Drops the packets that wait for the oldest entries.
    fn slim_packets(&mut self, lost: &mut Batch) {
        let limit = self.limits.packets;
        // At least one: the packet that is about to wait is counted already.
        let target = (limit - limit / self.limits.slim_factor).max(1);
        let mut at = self.oldest;
        while at != NIL && self.packets > target {
            let entry = &mut self.entries[at as usize];
            let n = entry.waiting.len().min(self.packets - target);
            lost.extend(entry.waiting.drain(..n));
            self.packets -= n;
            at = entry.newer;
        }
    }

    /// Every entry, the oldest first.
    pub fn rows(&self, now: i64) -> impl Iterator<Item = Row<K>> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let entry = self.entries.get(at as usize)?;
            at = entry.newer;
            let known = entry.known && !entry.expired(now, &self.limits);
            Some(Row { key: entry.key, known, mac: entry.mac, age: now - entry.live_at })
        })
    }

    /// The entry of `key`, made if there is none.
    fn ensure(&mut self, key: K, now: i64, lost: &mut Batch) -> u32 {
        if let Some(at) = self.map.get(&key) {
            return *at;
        }
        while self.map.len() >= self.limits.entries && self.oldest != NIL {
            self.remove(self.oldest, lost);
        }
        let polled_at = now.saturating_sub(self.limits.query_interval_late);
        let entry = Entry {
            key,
            mac: MacAddr::BROADCAST,
            known: false,
            live_at: now,
            polled_at,
            polls: 0,
            waiting: VecDeque::new(),
            older: NIL,
            newer: NIL,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.map.insert(key, at);
        self.link_before(NIL, at);
        at
    }

    /// An entry that packets still come for stays just this side of expiring.
    fn keep_alive(&mut self, at: u32, now: i64) {
        let least = now.saturating_sub(self.limits.timeout);
        if self.limits.timeout == 0 || self.entries[at as usize].live_at >= least {
            return;
        }
        // Confirmed too long ago: known no longer, lest the new time revive it.
        self.entries[at as usize].known = false;
        self.entries[at as usize].live_at = least;
        let mut next = self.entries[at as usize].newer;
        while next != NIL && self.entries[next as usize].live_at < least {
            next = self.entries[next as usize].newer;
        }
        self.unlink(at);
        self.link_before(next, at);
    }

    fn remove(&mut self, at: u32, lost: &mut Batch) {
        self.unlink(at);
        let entry = &mut self.entries[at as usize];
        self.packets -= entry.waiting.len();
        lost.extend(std::mem::take(&mut entry.waiting));
        self.forgot |= entry.known;
        self.map.remove(&entry.key);
        self.free.push(at);
    }

    fn unlink(&mut self, at: u32) {
        let Entry { older, newer, .. } = self.entries[at as usize];
        match older {
            NIL => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }

    /// Puts an unlinked entry in front of `next`, or at the end.
    fn link_before(&mut self, next: u32, at: u32) {
        let older = match next {
            NIL => std::mem::replace(&mut self.newest, at),
            next => std::mem::replace(&mut self.entries[next as usize].older, at),
        };
        match older {
            NIL => self.oldest = at,
            older => self.entries[older as usize].newer = at,
        }
        let entry = &mut self.entries[at as usize];
        (entry.older, entry.newer) = (older, next);
    }
}

#[cfg(test)]
mod tests;
