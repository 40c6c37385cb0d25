//! Leases: a table of fixed size.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use thruway_wire::MacAddr;
use thruway_wire::dhcp::{DhcpMessage, option};

/// Most addresses of a server.
pub(super) const ADDRESSES_MAX: u32 = 4096;
/// How long an address stays offered, nanoseconds.
const OFFER_NS: i64 = 60_000_000_000;
/// How long an address is not given away after a client found it in use, nanoseconds.
const DECLINED_NS: i64 = 600_000_000_000;

/// Longest client identifier that is kept: RFC 4361's, with a DUID of at most 18 bytes, has 23.
const ID_MAX: usize = 32;

/// Identity of a client: its client identifier, or else its Ethernet address (RFC 2131 section
/// 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    id: [u8; ID_MAX],
    /// 0 for an Ethernet address.
    id_len: u8,
    mac: MacAddr,
}

impl Client {
    /// The sender of a message; its Ethernet address if the identifier is longer than what is kept.
    pub(super) fn of(message: &DhcpMessage<'_>, mac: MacAddr) -> Client {
        let given = message.option(option::CLIENT_ID).filter(|id| id.len() <= ID_MAX);
        let given = given.unwrap_or_default();
        let mut id = [0; ID_MAX];
        id[..given.len()].copy_from_slice(given);
        // With an identifier, the hardware address is not what makes the client.
        let known = if given.is_empty() { mac } else { MacAddr::ZERO };
        Client { id, id_len: given.len() as u8, mac: known }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseState {
    Offered,
    Leased,
    Declined,
}

/// One address.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The client that has the address, or had it last; none if it was found in use.
    client: Option<Client>,
    mac: MacAddr,
    state: LeaseState,
    /// When it is free again.
    until: i64,
}

/// All addresses of a server.
#[derive(Debug)]
pub(super) struct Leases {
    first: u32,
    entries: Vec<Entry>,
    /// Where each client's entry is. It has room for twice as many as there can be, so that it
    /// never grows.
    by_client: HashMap<Client, u32>,
    /// Where the search for a free address begins.
    cursor: usize,
    /// No address becomes free before.
    soonest: i64,
}

impl Leases {
    /// None of the addresses from `first` to `last` is given away.
    pub(super) fn new(first: Ipv4Addr, last: Ipv4Addr) -> Leases {
        let count = last.to_bits().saturating_sub(first.to_bits()).min(ADDRESSES_MAX - 1) + 1;
        let free =
            Entry { client: None, mac: MacAddr::ZERO, state: LeaseState::Offered, until: i64::MIN };
        Leases {
            first: first.to_bits(),
            entries: vec![free; count as usize],
            by_client: HashMap::with_capacity(2 * count as usize),
            cursor: 0,
            soonest: i64::MIN,
        }
    }

    /// First and last address.
    pub(super) fn range(&self) -> (Ipv4Addr, Ipv4Addr) {
        let last = self.first.saturating_add(self.entries.len() as u32 - 1);
        (self.first.into(), last.into())
    }

    fn index(&self, address: Ipv4Addr) -> Option<usize> {
        let index = address.to_bits().checked_sub(self.first)? as usize;
        (index < self.entries.len()).then_some(index)
    }

    fn address(&self, index: usize) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first + index as u32)
    }

    /// Whether a client may have an address: it has it, or the address is free.
    fn may_have(&self, index: usize, client: &Client, now: i64) -> bool {
        let entry = &self.entries[index];
        entry.until <= now || entry.client.as_ref() == Some(client)
    }

    /// An address for a client, which is kept for it for a minute: the one that it has or had, the
    /// one that it would like, or any (RFC 2131 section 4.3.1). `None` when all are in use.
    pub(super) fn offer(
        &mut self,
        client: &Client,
        mac: MacAddr,
        wanted: Option<Ipv4Addr>,
        now: i64,
    ) -> Option<Ipv4Addr> {
        let had = self.by_client.get(client).map(|index| *index as usize);
        let wanted = wanted.and_then(|address| self.index(address));
        let index = had
            .filter(|index| self.may_have(*index, client, now))
            .or_else(|| wanted.filter(|index| self.may_have(*index, client, now)))
            .or_else(|| self.free(now))?;
        let entry = &self.entries[index];
        let (state, until) = match entry.client.as_ref() == Some(client) && entry.until > now {
            true => (entry.state, entry.until.max(now.saturating_add(OFFER_NS))),
            false => (LeaseState::Offered, now.saturating_add(OFFER_NS)),
        };
        self.put(index, client, Entry { client: Some(*client), mac, state, until });
        Some(self.address(index))
    }

    /// Gives a client an address until `until`; says whether it may have it.
    pub(super) fn lease(
        &mut self,
        client: &Client,
        mac: MacAddr,
        address: Ipv4Addr,
        (now, until): (i64, i64),
    ) -> bool {
        let index = self.index(address).filter(|index| self.may_have(*index, client, now));
        if let Some(index) = index {
            let entry = Entry { client: Some(*client), mac, state: LeaseState::Leased, until };
            self.put(index, client, entry);
        }
        index.is_some()
    }

    /// Takes an address back from the client that has it, and remembers that client.
    pub(super) fn release(&mut self, client: &Client, address: Option<Ipv4Addr>) -> bool {
        self.end(client, address, |entry| entry.until = i64::MIN)
    }

    /// Keeps an address that its client found in use from everybody for ten minutes.
    pub(super) fn decline(&mut self, client: &Client, address: Option<Ipv4Addr>, now: i64) -> bool {
        let ended = self.end(client, address, |entry| {
            (entry.client, entry.state) = (None, LeaseState::Declined);
            entry.until = now.saturating_add(DECLINED_NS);
        });
        if ended {
            self.by_client.remove(client);
        }
        ended
    }

    /// Changes the entry of a client; `address`, if given, must be that of the entry.
    fn end(
        &mut self,
        client: &Client,
        address: Option<Ipv4Addr>,
        change: impl FnOnce(&mut Entry),
    ) -> bool {
        let Some(&index) = self.by_client.get(client) else { return false };
        let index = index as usize;
        if address.is_some_and(|address| address != self.address(index)) {
            return false;
        }
        change(&mut self.entries[index]);
        self.soonest = self.soonest.min(self.entries[index].until);
        true
    }

    fn put(&mut self, index: usize, client: &Client, entry: Entry) {
        if let Some(before) = self.entries[index].client.filter(|before| before != client) {
            self.by_client.remove(&before);
        }
        if let Some(other) = self.by_client.insert(*client, index as u32)
            && other as usize != index
        {
            // A client has one address.
            let other = &mut self.entries[other as usize];
            (other.client, other.until) = (None, i64::MIN);
            self.soonest = i64::MIN;
        }
        self.soonest = self.soonest.min(entry.until);
        self.entries[index] = entry;
    }

    /// A free address. While all are in use this costs no search.
    fn free(&mut self, now: i64) -> Option<usize> {
        if now < self.soonest {
            return None;
        }
        let count = self.entries.len();
        let order = (self.cursor..count).chain(0..self.cursor.min(count));
        let mut soonest = i64::MAX;
        for index in order {
            let until = self.entries[index].until;
            if until <= now {
                self.cursor = (index + 1) % count;
                return Some(index);
            }
            soonest = soonest.min(until);
        }
        self.soonest = soonest;
        None
    }

    /// Addresses in use.
    pub(super) fn count(&self, now: i64) -> usize {
        self.entries.iter().filter(|entry| entry.until > now).count()
    }

    /// A line for each address in use.
    pub(super) fn table(&self, now: i64) -> String {
        let mut text = String::new();
        for (index, entry) in self.entries.iter().enumerate().filter(|(_, it)| it.until > now) {
            let left_s = entry.until.saturating_sub(now) / 1_000_000_000;
            let state = match entry.state {
                LeaseState::Offered => "offered",
                LeaseState::Leased => "leased",
                LeaseState::Declined => "declined",
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {} {state} {left_s}", self.address(index), entry.mac);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;
    const HOUR: i64 = 3600 * SECOND;

    fn mac(n: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, n])
    }

    fn client(n: u8) -> Client {
        Client { id: [0; ID_MAX], id_len: 0, mac: mac(n) }
    }

    fn ip(n: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, n)
    }

    #[test]
    fn a_client_gets_its_address_again() {
        let mut leases = Leases::new(ip(10), ip(12));
        let given = leases.offer(&client(1), mac(1), Some(ip(11)), 0);
        assert_eq!(given, Some(ip(11)), "what it would like");
        assert!(leases.lease(&client(1), mac(1), ip(11), (0, HOUR)));
        assert_eq!(leases.offer(&client(1), mac(1), Some(ip(12)), 1), Some(ip(11)));
        assert_eq!(leases.count(HOUR - 1), 1, "an offer does not shorten a lease");
        // It is over, and no other client came.
        assert_eq!(leases.offer(&client(1), mac(1), None, 2 * HOUR), Some(ip(11)));
        assert!(!leases.lease(&client(2), mac(2), ip(11), (2 * HOUR, 3 * HOUR)), "offered");
        assert!(!leases.lease(&client(2), mac(2), ip(13), (0, 1)), "outside of the range");
    }

    #[test]
    fn released_and_declined() {
        let mut leases = Leases::new(ip(10), ip(10));
        assert!(leases.lease(&client(1), mac(1), ip(10), (0, HOUR)));
        assert_eq!(leases.offer(&client(2), mac(2), None, 1), None);
        assert!(!leases.release(&client(2), Some(ip(10))), "of another client");
        assert!(leases.release(&client(1), Some(ip(10))));
        assert_eq!(leases.offer(&client(2), mac(2), None, 1), Some(ip(10)));
        assert!(leases.decline(&client(2), Some(ip(10)), 2));
        assert_eq!(leases.offer(&client(2), mac(2), None, 3), None);
        assert_eq!(leases.table(2), "10.0.0.10 02:00:00:00:00:02 declined 600\n");
        assert!(leases.offer(&client(2), mac(2), None, 2 + DECLINED_NS).is_some());
    }

    proptest! {
        /// Whatever clients ask for, no two have one address, and the table keeps its size.
        #[test]
        fn no_address_has_two_clients(
            steps in prop::collection::vec((0u8..5, 0u8..8, 0u8..6, 0i64..200), 1..200),
        ) {
            let mut leases = Leases::new(ip(1), ip(4));
            let room = leases.by_client.capacity();
            // Client and end of each lease that was given.
            let mut given: HashMap<Ipv4Addr, (u8, i64)> = HashMap::new();
            let mut now = 0;
            for (what, id, which, wait_s) in steps {
                now += wait_s * SECOND;
                let (key, mac, address) = (client(id), mac(id), ip(which));
                let others = |address: &Ipv4Addr, given: &HashMap<Ipv4Addr, (u8, i64)>| {
                    given.get(address).is_some_and(|(has, until)| *has != id && *until > now)
                };
                match what {
                    0 | 1 => {
                        let offered = leases.offer(&key, mac, Some(address), now);
                        prop_assert!(offered.is_none_or(|offered| !others(&offered, &given)));
                    }
                    2 => {
                        let until = now + 300 * SECOND;
                        if leases.lease(&key, mac, address, (now, until)) {
                            prop_assert!(!others(&address, &given));
                            given.retain(|_, (has, _)| *has != id);
                            given.insert(address, (id, until));
                        }
                    }
                    3 => if leases.release(&key, Some(address)) {
                        given.remove(&address);
                    },
                    _ => if leases.decline(&key, Some(address), now) {
                        given.remove(&address);
                    },
                }
                prop_assert!(leases.by_client.len() <= 4);
                prop_assert!(leases.by_client.capacity() <= room);
                for (key, index) in &leases.by_client {
                    prop_assert_eq!(leases.entries[*index as usize].client.as_ref(), Some(key));
                }
                let free = leases.entries.iter().any(|entry| entry.until <= now);
                prop_assert!(!free || leases.soonest <= now, "a free one would not be found");
            }
        }
    }
}
