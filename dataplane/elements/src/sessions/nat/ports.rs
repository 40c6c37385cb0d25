//! The outside addresses and their ports: who gets which.

use crate::random::Secret;

use super::blocks::Blocks;
use super::kind::Kind;
use super::lane::Lane;

/// Ports below are well-known; hosts that use one get one, where the range has some (RFC 4787
/// REQ-3).
pub(super) const WELL_KNOWN_END: u16 = 1024;
/// Most addresses of a pool that are tried for one session.
const ADDRESSES_TRIED: u32 = 16;

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

/// Which thread of how many that share the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Its rank among them, from 0.
    pub thread: usize,
    /// At least 1.
    pub threads: usize,
}

impl Share {
    /// This thread's part of the ports `first..=last`: base and length.
    pub(super) fn of(self, first: u16, last: u16) -> (u16, u32) {
        let len = (u32::from(last) + 1).saturating_sub(u32::from(first)) as usize;
        let cut = |n: usize| (len * n / self.threads) as u32;
        let (from, to) = (cut(self.thread), cut(self.thread + 1));
        ((u32::from(first) + from) as u16, to - from)
    }
}

/// Well-known ports, and the others.
type Lanes = [Lane; 2];

/// One outside address.
pub(super) struct Address {
    /// The address.
    pub addr: u32,
    /// By [`Kind`].
    pub lanes: [Lanes; 3],
}

impl Address {
    fn new(addr: u32, ports: (u16, u16), share: Share) -> Address {
        let lane = |first: u16, last: u16| {
            let (base, len) = share.of(first, last);
            Lane::new(base, len)
        };
        let lanes = |_| -> Lanes {
            let (first, last) = ports;
            let low = if first < WELL_KNOWN_END {
                lane(first, last.min(WELL_KNOWN_END - 1))
            } else {
                Lane::default()
            };
            let high = if last >= WELL_KNOWN_END {
                lane(first.max(WELL_KNOWN_END), last)
            } else {
                Lane::default()
            };
            [low, high]
        };
        Address { addr, lanes: [0, 1, 2].map(lanes) }
    }

    /// Free ports of a kind.
    pub(super) fn free(&self, kind: Kind) -> u32 {
        self.lanes[kind as usize].iter().map(Lane::free).sum()
    }

    /// All ports of a kind.
    pub(super) fn len(&self, kind: Kind) -> u32 {
        self.lanes[kind as usize].iter().map(Lane::len).sum()
    }

    fn take(&mut self, kind: Kind, wished: u16, random: &mut Secret) -> Option<u16> {
        let [low, high] = &mut self.lanes[kind as usize];
        let mut from = |lane: &mut Lane| lane.take(random.below(u64::from(lane.len())) as u32);
        if wished < WELL_KNOWN_END {
            from(low).or_else(|| from(high))
        } else if high.len() > 0 {
            from(high)
        } else {
            from(low)
        }
    }

    fn release(&mut self, kind: Kind, port: u16) {
        let lanes = &mut self.lanes[kind as usize];
        lanes[usize::from(port >= WELL_KNOWN_END)].release(port);
    }
}

/// The addresses of a pool, as one host sees them.
#[derive(Clone, Copy)]
pub(super) struct Places {
    first: u32,
    count: u32,
    host: u32,
}

impl Places {
    /// Whether a place is one of them.
    pub(super) fn has(self, place: u32) -> bool {
        place.wrapping_sub(self.first) < self.count
    }

    /// Those to try, the host's own first.
    pub(super) fn tried(self) -> impl Iterator<Item = u32> {
        let start = u64::from(self.host).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (0..self.count.min(ADDRESSES_TRIED))
            .map(move |n| self.first + ((start + u64::from(n)) % u64::from(self.count)) as u32)
    }
}

/// Who asks for a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    /// Inside address.
    pub host: u32,
    /// For what.
    pub kind: Kind,
    /// The port that it uses itself.
    pub port: u16,
    /// Present time, nanoseconds.
    pub now: i64,
}

/// Why there is no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPort {
    /// All are in use.
    None,
    /// The host has as many blocks as one may have.
    HostLimit,
}

/// An outside port in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outside {
    /// Place of the address.
    pub place: u32,
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
        let seeds = [self.random.next(), self.random.next()];
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
                for place in 0..lane.len() {
                    let port = lane.port(place);
                    if (first..=last).contains(&port) {
                        lane.claim(port);
                    }
                }
            }
        }
    }

    /// The place of the address that has this port to give.
    pub(super) fn place(&self, addr: u32, port: u16) -> Option<u32> {
        let has = |(pool, _): &&(Pool, u32)| {
            pool.has(addr) && (pool.ports.0..=pool.ports.1).contains(&port)
        };
        let (pool, first) = self.pools.iter().find(has)?;
        Some(first + (addr - pool.addresses.0))
    }

    /// Takes a port of a pool. A host gets the same address as long as that has any (RFC 4787
    /// REQ-2).
    pub(super) fn take(&mut self, pool: usize, asker: &Asker) -> Result<Outside, NoPort> {
        let (pool, first) = self.pools[pool];
        let places = Places { first, count: pool.len(), host: asker.host };
        let Ports { addresses, blocks, random, .. } = self;
        let taken = match blocks {
            Some(blocks) => blocks.take(addresses, places, asker, random)?,
            None => {
                let take = |place: u32| {
                    let address = &mut addresses[place as usize];
                    Some((place, address.take(asker.kind, asker.port, random)?))
                };
                places.tried().find_map(take).ok_or(NoPort::None)?
            }
        };
        let (place, port) = taken;
        Ok(Outside { place, addr: self.addresses[place as usize].addr, port })
    }

    /// Gives a port back.
    pub(super) fn release(&mut self, (place, port): (u32, u16), kind: Kind, now: i64) {
        let Some(address) = self.addresses.get_mut(place as usize) else { return };
        address.release(kind, port);
        if let Some(blocks) = &mut self.blocks {
            blocks.release(&self.addresses, (place, port), now);
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
