//! The outside addresses, and the assignment of their ports.

use thruway_elements_support::random::Secret;

use super::address::{Address, AddressRange, WELL_KNOWN_END};
pub(super) use super::address::{Asker, NoPort, Share};
use super::blocks::Blocks;
use super::kind::Kind;

/// A run of outside addresses with the same ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// First and last address.
    pub addresses: (u32, u32),
    /// First and last port.
    pub ports: (u16, u16),
}

impl Pool {
    /// How many addresses.
    pub(super) fn len(&self) -> u32 {
        // At most ADDRESSES_MAX, see the rules.
        self.addresses.1 - self.addresses.0 + 1
    }

    /// Whether an address is one of them.
    pub(super) fn has(&self, address: u32) -> bool {
        (self.addresses.0..=self.addresses.1).contains(&address)
    }
}

/// An outside port in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outside {
    /// Place of the address.
    pub address_index: u32,
    /// The address.
    pub addr: u32,
    /// The port.
    pub port: u16,
}

/// The ports of all pools, one thread's share.
pub(super) struct Ports {
    /// Each with the place of its first address.
    pools: Vec<(Pool, u32)>,
    addresses: Vec<Address>,
    blocks: Option<Blocks>,
    random: Secret,
}

impl Ports {
    /// All free. Pools have no address and port in common.
    pub(super) fn new(pools: &[Pool], share: Share, random: Secret) -> Ports {
        let mut addresses = Vec::new();
        let mut placed = Vec::with_capacity(pools.len());
        for pool in pools {
            placed.push((*pool, addresses.len() as u32));
            let (first, last) = pool.addresses;
            addresses.extend((first..=last).map(|addr| Address::new(addr, pool.ports, share)));
        }
        Ports { pools: placed, addresses, blocks: None, random }
    }

    /// From now on hosts get ports by the block. To be called while all are free.
    pub(super) fn set_blocks(&mut self, size: u32, per_host: u32, log_room: usize) {
        let seeds = [self.random.next_u64(), self.random.next_u64()];
        self.blocks = Some(Blocks::new(&self.addresses, (size, per_host), log_room, seeds));
    }

    /// The blocks, where ports are given by the block.
    pub(super) fn blocks(&self) -> Option<&Blocks> {
        self.blocks.as_ref()
    }

    /// See [`Ports::blocks`].
    pub(super) fn blocks_mut(&mut self) -> Option<&mut Blocks> {
        self.blocks.as_mut()
    }

    /// The addresses, in the order of their places.
    pub(super) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Keeps ports `first..=last` of an address for something else; all that are of this thread.
    pub(super) fn reserve(&mut self, addr: u32, kind: Kind, (first, last): (u16, u16)) {
        for address in self.addresses.iter_mut().filter(|address| address.addr == addr) {
            for lane in &mut address.lanes[kind as usize] {
                for offset in 0..lane.len() {
                    let port = lane.port(offset);
                    if (first..=last).contains(&port) {
                        lane.claim(port);
                    }
                }
            }
        }
    }

    /// Takes this very port of an address; false when it is in use, not of this thread, or given by
    /// the block.
    pub(super) fn claim(&mut self, (address_index, port): (u32, u16), kind: Kind) -> bool {
        let Some(address) = self.addresses.get_mut(address_index as usize) else { return false };
        let lanes = &mut address.lanes[kind as usize];
        self.blocks.is_none() && lanes[usize::from(port >= WELL_KNOWN_END)].claim(port)
    }

    /// The place of the address that has this port to give.
    pub(super) fn address_index(&self, addr: u32, port: u16) -> Option<u32> {
        let has = |(pool, _): &&(Pool, u32)| {
            pool.has(addr) && (pool.ports.0..=pool.ports.1).contains(&port)
        };
        let (pool, first) = self.pools.iter().find(has)?;
        Some(first + (addr - pool.addresses.0))
    }

    /// The addresses of a pool, as a host sees them.
    pub(super) fn addresses_for(&self, pool: usize, host: u32) -> AddressRange {
        let (pool, first) = self.pools[pool];
        AddressRange { first, count: pool.len(), host }
    }

    /// The number of the list of sessions with ports like this one: two lists for each address, or
    /// one for each block.
    pub(super) fn list(&self, address_index: u32, port: u16) -> u32 {
        match &self.blocks {
            Some(blocks) => blocks.list(&self.addresses, (address_index, port)),
            None => address_index * 2 + u32::from(port >= WELL_KNOWN_END),
        }
    }

    /// How many such lists there are.
    pub(super) fn lists_len(&self) -> usize {
        self.blocks.as_ref().map_or(self.addresses.len() * 2, Blocks::total)
    }

    /// Lists of sessions with ports of an address that the requester may have.
    pub(super) fn lists(
        &self,
        address_index: u32,
        asker: &Asker,
    ) -> impl Iterator<Item = u32> + use<> {
        let order = self.addresses[address_index as usize].order(asker.kind, asker.port);
        order.iter().map(move |&lane| address_index * 2 + lane as u32)
    }

    /// Takes a port of a pool. A host gets the same address as long as that has any (RFC 4787
    /// REQ-2).
    pub(super) fn take(&mut self, pool: usize, asker: &Asker) -> Result<Outside, NoPort> {
        let range = self.addresses_for(pool, asker.host);
        let Ports { addresses, blocks, random, .. } = self;
        let taken = match blocks {
            Some(blocks) => blocks.take(addresses, range, asker, random)?,
            None => {
                let take = |address_index: u32| {
                    let address = &mut addresses[address_index as usize];
                    Some((address_index, address.take(asker.kind, asker.port, random)?))
                };
                range.tried().find_map(take).ok_or(NoPort::None)?
            }
        };
        let (address_index, port) = taken;
        Ok(Outside { address_index, addr: self.addresses[address_index as usize].addr, port })
    }

    /// Gives a port back.
    pub(super) fn release(&mut self, (address_index, port): (u32, u16), kind: Kind, now: i64) {
        let Some(address) = self.addresses.get_mut(address_index as usize) else { return };
        address.release(kind, port);
        if let Some(blocks) = &mut self.blocks {
            blocks.release(&self.addresses, (address_index, port), now);
        }
    }

    /// Ports in use, of all addresses.
    pub(super) fn in_use(&self) -> u64 {
        let of = |kind: Kind| {
            self.addresses.iter().map(move |a| u64::from(a.len(kind) - a.free(kind))).sum::<u64>()
        };
        Kind::ALL.into_iter().map(of).sum()
    }
}
