//! The DIR-24-8 forwarding table (Gupta, Lin and McKeown, "Routing lookups in hardware at memory
//! access speeds", INFOCOM 1998), read by many threads while one changes it.
//!
//! `tbl24` has an entry for each /24. An entry is a route's index, or with the high bit the number
//! of a group of 256 entries in `tbl8`, one for each address of that /24. Entries are 16 bits: half
//! the memory, so half the cache and TLB misses, of the usual 32. Index 0 means the default route,
//! so a default route is one store and a table with few routes touches few pages: both tables are
//! zeroed memory which the system only supplies when it is written.
//!
//! # Memory ordering
//!
//! There is one writer at a time (`&mut Groups` is its licence) and any number of readers.
//!
//! - E1: the writer fills a new group and then stores its number in `tbl24` with release. A reader
//!   loads `tbl24` relaxed, then passes an acquire fence (F1), then loads from `tbl8`: if it saw
//!   the number it sees the group filled. One fence for a batch, and on x86 it is no instruction.
//! - E2: before the writer puts a *used* group (or route index) to another use it advances `epoch`
//!   with release, then passes a release fence, then overwrites. A reader loads `epoch` (acquire,
//!   E2a) before and, after an acquire fence (F2), again after its other loads. If it saw anything
//!   of the new use through an old number, F2 makes it see the new epoch, and it looks again. If
//!   the epoch was new already at E2a, it could not have loaded the old number.
//! - A change of a prefix is not atomic over the addresses it covers, but for each address a reader
//!   sees the route from before or from after the change and nothing else.
//!
//! Nothing needs sequential consistency: there is no decision that depends on two threads each
//! storing one variable and loading the other's.

use crate::error::LpmError;
use crate::hops::{IndexPool, Taken};
use crate::limits::GROUPS;
use crate::prefix::Prefix;
use crate::rib::Rib;
use thruway_sync::atomic::{AtomicU16, AtomicU64, Ordering, fence};
use zerocopy::FromZeros;

pub(crate) const GROUP_SIZE: usize = 256;
/// Bits of an address that select an entry of `tbl24`.
pub(crate) const FIRST_BITS: u8 = 24;
/// The high bit of a `tbl24` entry: the rest is the number of a group.
const EXTENDED: u16 = 0x8000;
/// Number of addresses with loads in flight together.
pub(crate) const CHUNK: usize = 64;
/// A batch that was overtaken this often goes on address by address.
const BATCH_ATTEMPTS: usize = 3;

type Tbl24 = [AtomicU16; 1 << 24];
type Tbl8 = [AtomicU16; (GROUPS + 1) * GROUP_SIZE];

/// The forwarding table: from address to index.
///
/// 48 MB of address space, of which only what was written is memory.
#[derive(Debug)]
pub struct Dir24_8 {
    tbl24: Box<Tbl24>,
    tbl8: Box<Tbl8>,
    default: AtomicU16,
    epoch: AtomicU64,
}

/// Which groups are in use: the writer's part of the table.
#[derive(Debug)]
pub(crate) struct Groups(IndexPool);

impl Groups {
    pub fn new() -> Self {
        Groups(IndexPool::new(GROUPS as u16))
    }

    /// How many more /24s may.
    pub fn free(&self) -> usize {
        GROUPS - self.in_use()
    }

    /// How many /24s hold longer prefixes.
    pub fn in_use(&self) -> usize {
        self.0.in_use()
    }
}

/// Where in `tbl8` the entry for `addr` is, by its `tbl24` entry.
#[inline]
fn tbl8_index(entry: u16, addr: u32) -> usize {
    usize::from(entry & !EXTENDED) * GROUP_SIZE + (addr & 0xff) as usize
}

impl Dir24_8 {
    /// A table without routes.
    ///
    /// # Errors
    /// When the address space for it cannot be had.
    pub(crate) fn new() -> Result<Self, LpmError> {
        Ok(Dir24_8 {
            tbl24: Tbl24::new_box_zeroed().map_err(|_| LpmError::NoMemory)?,
            tbl8: Tbl8::new_box_zeroed().map_err(|_| LpmError::NoMemory)?,
            default: AtomicU16::new(0),
            epoch: AtomicU64::new(0),
        })
    }

    /// The first-level entries, so that the caller can ask the kernel for huge pages.
    pub fn first_level(&self) -> &[AtomicU16] {
        &self.tbl24[..]
    }

    /// The route index for `addr`, 0 if there is none.
    #[inline]
    pub fn lookup(&self, addr: u32) -> u16 {
        loop {
            let epoch = self.epoch();
            let index = self.read(addr);
            if self.still(epoch) {
                return index;
            }
        }
    }

    /// The route index for each of `addrs`, 0 where there is none, in the same place of `out`.
    ///
    /// The loads of a batch do not depend on one another, so their cache misses overlap. Only as
    /// many addresses are looked up as there are places in `out`.
    #[inline]
    pub fn lookup_batch(&self, addrs: &[u32], out: &mut [u32]) {
        for _ in 0..BATCH_ATTEMPTS {
            let epoch = self.epoch();
            for (addrs, out) in addrs.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
                self.read_each(addrs, out, u32::from);
            }
            if self.still(epoch) {
                return;
            }
        }
        for (&addr, out) in addrs.iter().zip(out) {
            *out = u32::from(self.lookup(addr));
        }
    }

    /// E2a: what to compare with once everything was read.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// F2: whether nothing was put to another use since [`Dir24_8::epoch`] gave `epoch`.
    #[inline]
    pub(crate) fn still(&self, epoch: u64) -> bool {
        fence(Ordering::Acquire);
        self.epoch.load(Ordering::Relaxed) == epoch
    }

    #[inline]
    pub(crate) fn read(&self, addr: u32) -> u16 {
        // Acquire: F1 for one address.
        let mut entry = self.tbl24[(addr >> 8) as usize].load(Ordering::Acquire);
        if entry & EXTENDED != 0 {
            entry = self.tbl8[tbl8_index(entry, addr)].load(Ordering::Acquire);
        }
        if entry == 0 { self.default.load(Ordering::Acquire) } else { entry }
    }

    // PERF: two passes, not address by address: 7.5 against 12 ns at 500,000 prefixes, for the
    // loads of a pass wait for nothing (2 shared cores of an AMD EPYC).
    //     cargo run --release -p thruway-lpm --example lookup_rate 500000
    /// Reads the index for each of up to [`CHUNK`] addresses and puts what `then` makes of it into
    /// the same place of `out`. What was stored before an index (with release) is seen by `then`.
    #[inline]
    pub(crate) fn read_each<T>(&self, addrs: &[u32], out: &mut [T], then: impl Fn(u16) -> T) {
        let mut entries = [0; CHUNK];
        for (entry, &addr) in entries.iter_mut().zip(addrs) {
            *entry = self.tbl24[(addr >> 8) as usize].load(Ordering::Relaxed);
        }
        // F1, and for `then`: acquire here for indices of `tbl24`, at the loads for the others.
        fence(Ordering::Acquire);
        let default = self.default.load(Ordering::Acquire);
        for ((out, &addr), &entry) in out.iter_mut().zip(addrs).zip(&entries) {
            let mut entry = entry;
            if entry & EXTENDED != 0 {
                entry = self.tbl8[tbl8_index(entry, addr)].load(Ordering::Acquire);
            }
            *out = then(if entry == 0 { default } else { entry });
        }
    }

    /// The group that `prefix` would need and that is not there: that of this /24.
    pub(crate) fn lacks(&self, prefix: Prefix<u32>) -> Option<u32> {
        let block = prefix.first() >> 8;
        (prefix.len() > 24 && self.group_of(block as usize).is_none()).then_some(block)
    }

    /// Whether [`Dir24_8::set`] can enter `prefix`.
    pub(crate) fn has_room(&self, groups: &Groups, prefix: Prefix<u32>) -> bool {
        let block = (prefix.first() >> 8) as usize;
        prefix.len() <= 24 || self.group_of(block).is_some() || !groups.0.is_exhausted()
    }

    /// Sets `index` for every address with `prefix` as its longest prefix in `rib`.
    ///
    /// `rib` holds `prefix` already. The caller has seen that there is room.
    pub(crate) fn set(
        &self,
        groups: &mut Groups,
        rib: &Rib<u32, u16>,
        prefix: Prefix<u32>,
        index: u16,
    ) {
        if prefix.len() == 0 {
            self.default.store(index, Ordering::Release);
            return;
        }
        // Between the more specific prefixes: they come in order, nested ones after their cover.
        let mut next = u64::from(prefix.first());
        for (inner, _) in rib.covered(prefix).filter(|(inner, _)| inner.len() > prefix.len()) {
            let first = u64::from(inner.first());
            if first > next {
                self.store_range(groups, next as u32, (first - 1) as u32, index);
            }
            next = next.max(u64::from(inner.last()) + 1);
        }
        if next <= u64::from(prefix.last()) {
            self.store_range(groups, next as u32, prefix.last(), index);
        }
    }

    /// Gives every address that `rib` covers its index, in one pass: each entry is written once,
    /// however deep prefixes nest.
    ///
    /// No prefix is gone from `rib` since the table was right, so what `rib` does not cover has no
    /// index. The caller has seen that there is room.
    pub(crate) fn fill(&self, groups: &mut Groups, rib: &Rib<u32, u16>) {
        // Prefixes around the present place, the longest last; the first address without its index.
        let (mut open, mut next): (Vec<(u32, u16)>, u64) = (Vec::new(), 0);
        for (prefix, &index) in rib.iter() {
            if prefix.len() == 0 {
                self.default.store(index, Ordering::Release);
                continue;
            }
            let first = u64::from(prefix.first());
            self.close(groups, (&mut open, &mut next), first);
            if let Some(&(_, over)) = open.last().filter(|_| next < first) {
                self.store_range(groups, next as u32, prefix.first() - 1, over);
            }
            next = first;
            open.push((prefix.last(), index));
        }
        self.close(groups, (&mut open, &mut next), u64::MAX);
    }

    /// Ends the prefixes that end before `before`.
    fn close(
        &self,
        groups: &mut Groups,
        (open, next): (&mut Vec<(u32, u16)>, &mut u64),
        before: u64,
    ) {
        while let Some(&(last, index)) = open.last().filter(|(last, _)| u64::from(*last) < before) {
            if *next <= u64::from(last) {
                self.store_range(groups, *next as u32, last, index);
            }
            *next = u64::from(last) + 1;
            open.pop();
        }
    }

    /// Gives the addresses of `prefix` back to the prefix that covers it.
    ///
    /// `rib` holds `prefix` no more.
    pub(crate) fn unset(&self, groups: &mut Groups, rib: &Rib<u32, u16>, prefix: Prefix<u32>) {
        let block = Prefix::truncate(prefix.first(), 24);
        if prefix.len() > 24 && rib.covered(block).all(|(inner, _)| inner.len() <= 24) {
            let index = index_over(rib, block);
            self.store_whole_block(groups, (block.first() >> 8) as usize, index);
        } else {
            self.set(groups, rib, prefix, index_over(rib, prefix));
        }
    }

    /// Says that a number that readers may know is about to mean something else (E2).
    pub(crate) fn before_reuse(&self, taken: Taken) {
        if taken.reused {
            let epoch = self.epoch.load(Ordering::Relaxed); // there is no other writer
            self.epoch.store(epoch + 1, Ordering::Release);
            fence(Ordering::Release);
        }
    }

    fn store_range(&self, groups: &mut Groups, first: u32, last: u32, index: u16) {
        for block in first >> 8..=last >> 8 {
            let low = first.max(block << 8);
            let high = last.min(block << 8 | 0xff);
            let block = block as usize;
            if high - low == 0xff {
                self.store_whole_block(groups, block, index);
            } else {
                self.store_in_group(groups, block, low as u8..=high as u8, index);
            }
        }
    }

    /// A /24 without longer prefixes: one entry, and its group, if it had one, is free.
    fn store_whole_block(&self, groups: &mut Groups, block: usize, index: u16) {
        let group = self.group_of(block);
        self.tbl24[block].store(index, Ordering::Release);
        if let Some(group) = group {
            groups.0.give_back(group);
        }
    }

    fn store_in_group(
        &self,
        groups: &mut Groups,
        block: usize,
        range: std::ops::RangeInclusive<u8>,
        index: u16,
    ) {
        if let Some(group) = self.group_of(block) {
            for low in range {
                // Release: a reader that finds the index finds the route behind it.
                self.tbl8[tbl8_index(group, u32::from(low))].store(index, Ordering::Release);
            }
            return;
        }
        // The caller made sure of room; without it the addresses keep the covering route.
        let Some(taken) = groups.0.take() else { return };
        self.before_reuse(taken);
        let cover = self.tbl24[block].load(Ordering::Relaxed);
        for low in 0..=u8::MAX {
            let value = if range.contains(&low) { index } else { cover };
            self.tbl8[tbl8_index(taken.index, u32::from(low))].store(value, Ordering::Relaxed);
        }
        self.tbl24[block].store(taken.index | EXTENDED, Ordering::Release); // E1
    }

    fn group_of(&self, block: usize) -> Option<u16> {
        let entry = self.tbl24[block].load(Ordering::Relaxed);
        (entry & EXTENDED != 0).then_some(entry & !EXTENDED)
    }
}

/// The index of the longest prefix that covers `prefix`, or 0, the default route's entry.
fn index_over(rib: &Rib<u32, u16>, prefix: Prefix<u32>) -> u16 {
    let covering = rib.covering(prefix).filter(|(cover, _)| cover.len() > 0);
    covering.last().map_or(0, |(_, &index)| index)
}
