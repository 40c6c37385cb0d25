//! Ports by the block (RFC 6888 section 4, RFC 7422): an inside host gets some at once, so that
//! what is logged is blocks, not sessions.

use thruway_elements_support::random::Secret;

use super::address::{Address, AddressRange, Asker, NoPort};
use super::chains::{Chains, Slab};
use super::lane::Lane;
use super::log::{Event, Log};

/// Most blocks that are looked at for one that can be taken from its host.
const VICTIMS_TRIED: u32 = 16;

/// A block that a host has.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    host: u32,
    /// Place of the address.
    address_index: u32,
    number: u32,
    /// Ports in use, of all kinds.
    used: u32,
}

/// The blocks of all addresses. They are cut from the ports that are not well-known; block `n` of
/// an address begins at place `n * size` of its lanes.
pub(super) struct Blocks {
    size: u32,
    per_host: u32,
    slab: Slab<Block>,
    by_host: Chains,
    /// By place of the address: which blocks are given.
    given: Vec<Lane>,
    /// By place of the address and number: the block's entry.
    entries: Vec<Box<[u32]>>,
    /// By place of the address: blocks of the addresses before it.
    before: Vec<u32>,
    /// The entry that [`Blocks::victim`] looks at next.
    hand: u32,
    /// Blocks given and freed.
    pub log: Log,
}

impl Blocks {
    /// None given. A block in which a port is in use already is never given.
    pub(super) fn new(
        addresses: &[Address],
        (size, per_host): (u32, u32),
        log_room: usize,
        seeds: [u64; 2],
    ) -> Blocks {
        let count = |address: &Address| address.lanes[0][1].len() / size;
        let total = addresses.iter().map(|address| count(address) as usize).sum();
        let before = addresses.iter().scan(0, |sum, address| {
            let before = *sum;
            *sum += count(address);
            Some(before)
        });
        let given = addresses.iter().map(|address| {
            let mut lane = Lane::new(0, count(address));
            for number in 0..count(address) {
                let is_free = |lane: &Lane| lane.are_free(number * size, size);
                if !address.lanes.iter().all(|[_, high]| is_free(high)) {
                    lane.claim(number as u16);
                }
            }
            lane
        });
        Blocks {
            size,
            per_host,
            slab: Slab::new(total),
            by_host: Chains::new(total, seeds),
            before: before.collect(),
            hand: 0,
            given: given.collect(),
            entries: addresses.iter().map(|a| vec![0; count(a) as usize].into()).collect(),
            log: Log::new(log_room),
        }
    }

    /// Blocks that hosts have.
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// How many blocks there are, given or not.
    pub(super) fn total(&self) -> usize {
        self.slab.slots().len()
    }

    /// The number among all blocks of that of a port; of none where it is in no block.
    pub(super) fn list(&self, addresses: &[Address], (address_index, port): (u32, u16)) -> u32 {
        let at = addresses[address_index as usize].lanes[0][1].offset(port);
        at.map_or(u32::MAX, |at| self.before[address_index as usize] + at / self.size)
    }

    /// A block at one of these addresses that `may_go`, by its number among all and the ports of it
    /// that are in use. Each time others are looked at.
    pub(super) fn victim(
        &mut self,
        range: AddressRange,
        mut may_go: impl FnMut(u32, u32) -> bool,
    ) -> Option<u32> {
        let total = self.total() as u32;
        for _ in 0..total.min(VICTIMS_TRIED) {
            let block = *self.slab.get(self.hand);
            self.hand = (self.hand + 1) % total;
            if block.used == 0 || !range.has(block.address_index) {
                continue;
            }
            let list = self.before[block.address_index as usize] + block.number;
            if may_go(list, block.used) {
                return Some(list);
            }
        }
        None
    }

    /// A port for a host: of one of its blocks, else of a new one, first at the address that it has
    /// a block of.
    pub(super) fn take(
        &mut self,
        addresses: &mut [Address],
        range: AddressRange,
        asker: &Asker,
        random: &mut Secret,
    ) -> Result<(u32, u16), NoPort> {
        let (slab, size, kind) = (&self.slab, self.size, asker.kind as usize);
        let (mut blocks, mut home, mut port) = (0, None, None);
        let found = self.by_host.find(u64::from(asker.host), |at| {
            let block = slab.get(at);
            if block.host != asker.host || !range.has(block.address_index) {
                return false;
            }
            blocks += 1;
            home = Some(block.address_index);
            let lane = &mut addresses[block.address_index as usize].lanes[kind][1];
            let start = random.below(u64::from(size)) as u32;
            port = lane.take_within(block.number * size, size, start);
            port.is_some()
        });
        if let (Some(at), Some(port)) = (found, port) {
            let block = self.slab.get_mut(at);
            block.used += 1;
            return Ok((block.address_index, port));
        }
        if blocks >= self.per_host {
            return Err(NoPort::HostLimit);
        }
        let fresh = home.into_iter().chain(range.tried()).find_map(|address_index| {
            let number = self.open(address_index, asker, random, addresses)?;
            let lane = &mut addresses[address_index as usize].lanes[kind][1];
            let start = random.below(u64::from(size)) as u32;
            Some((address_index, lane.take_within(number * size, size, start)?))
        });
        fresh.ok_or(NoPort::None)
    }

    /// Gives the asker a block at an address, one port of it in use already: its number.
    fn open(
        &mut self,
        address_index: u32,
        asker: &Asker,
        random: &mut Secret,
        addresses: &[Address],
    ) -> Option<u32> {
        let given = &mut self.given[address_index as usize];
        let start = random.below(u64::from(given.len())) as u32;
        let number = u32::from(given.take(start)?);
        let block = Block { host: asker.host, address_index, number, used: 1 };
        // There are as many entries as blocks.
        let at = self.slab.add(block)?;
        self.by_host.insert(u64::from(block.host), at);
        self.entries[address_index as usize][number as usize] = at;
        self.log_block(&block, &addresses[address_index as usize], asker.now, true);
        Some(number)
    }

    /// A port was given back.
    pub(super) fn release(
        &mut self,
        addresses: &[Address],
        (address_index, port): (u32, u16),
        now: i64,
    ) {
        let address = &addresses[address_index as usize];
        let Some(at) = address.lanes[0][1].offset(port) else { return };
        let number = at / self.size;
        let Some(at) = self.entries[address_index as usize].get(number as usize).copied() else {
            return;
        };
        let block = self.slab.get_mut(at);
        block.used -= 1;
        if block.used == 0 {
            let block = *block;
            self.slab.remove(at);
            self.by_host.remove(u64::from(block.host), at);
            self.given[address_index as usize].release(number as u16);
            self.log_block(&block, address, now, false);
        }
    }

    fn log_block(&mut self, block: &Block, address: &Address, now: i64, is_given: bool) {
        let first_port = address.lanes[0][1].port(block.number * self.size);
        let last_port = address.lanes[0][1].port(block.number * self.size + self.size - 1);
        let (host, addr) = (block.host, address.addr);
        self.log.push(Event { ns: now, is_given, host, addr, ports: (first_port, last_port) });
    }
}
