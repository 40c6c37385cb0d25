//! A split virtqueue, from the device's side (virtio 1.2, section 2.7).
//!
//! The guest owns the table of descriptors and the ring of available chains, and may write anything
//! there at any moment. Each index, descriptor and length is read once and checked before it is
//! used; what no driver writes is a [`RingFault`].

use std::num::Wrapping;
use std::sync::Arc;

use thruway_sync::atomic::{Ordering, fence};

use crate::memory::{GuestMemory, Outside, Spot};

/// Longest ring, in descriptors: as long as QEMU's.
pub const SIZE_MAX: u16 = 1024;

/// Descriptors that one call reads before it leaves the rest to the next: a guest whose chains
/// are long must not keep a thread.
const LOOK_MAX: usize = 1024;

const DESCRIPTOR_LEN: usize = 16;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// The guest wants no calls (VIRTQ_AVAIL_F_NO_INTERRUPT).
const NO_INTERRUPT: u16 = 1;
/// The device wants no kicks (VIRTQ_USED_F_NO_NOTIFY).
const NO_NOTIFY: u16 = 1;

/// What a guest wrote that no driver writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// Its length is no power of two, or too long.
    #[error("ring-size: a ring of a length that is no power of two up to {SIZE_MAX}")]
    Size,
    /// Its parts lie outside of the memory or are not aligned.
    #[error("ring-address: a ring outside of the guest's memory, or not aligned")]
    Address,
    /// More chains are available than the ring has.
    #[error("avail-jump: more chains are available than the ring has entries")]
    AvailJump,
    /// A head or next descriptor is not in the table.
    #[error("descriptor-index: the number of a descriptor that is not in its table")]
    Index,
    /// A chain of too many descriptors, a loop among them.
    #[error("chain-too-long: a chain of more descriptors than the ring has, or a loop")]
    ChainTooLong,
    /// A buffer outside of memory.
    #[error("outside-memory: a buffer that is not in the guest's memory")]
    OutsideMemory,
    /// A table of descriptors that may not be, or is none.
    #[error(
        "indirect-table: a table of descriptors that was not agreed on, is in another, or has no valid length"
    )]
    IndirectTable,
    /// A buffer to be read where one to be written belongs, or the reverse.
    #[error("direction: a buffer to be written where one to be read belongs, or the reverse")]
    Direction,
    /// A packet shorter than its header.
    #[error("short-header: a packet shorter than its virtio header")]
    ShortHeader,
    /// A packet that is to be finished by hardware.
    #[error(
        "offload: a packet that leaves a checksum or segments to the device, which was not agreed on"
    )]
    Offload,
    /// A buffer without bytes.
    #[error("empty-buffer: a chain of buffers that holds no byte")]
    EmptyBuffer,
    /// The memory went away.
    #[error("memory-gone: pages of the guest's memory went away")]
    MemoryGone,
}

impl From<Outside> for RingFault {
    fn from(_: Outside) -> RingFault {
        RingFault::OutsideMemory
    }
}

impl RingFault {
    /// Its short name, which its text begins with.
    pub fn name(self) -> String {
        self.to_string().split(':').next().unwrap_or_default().to_owned()
    }
}

/// The writer of a chain's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The guest did; the device reads.
    FromGuest,
    /// The device does.
    ToGuest,
}

/// Where a ring is, in the front-end's addresses, and where its device is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingSpec {
    /// Entries.
    pub size: u32,
    /// The table of descriptors.
    pub table: u64,
    /// The ring of available chains.
    pub avail: u64,
    /// The ring of used chains.
    pub used: u64,
    /// Number of the next available chain.
    pub next: u16,
}

/// A piece of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its address in the guest.
    pub guest: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// A ring.
#[derive(Debug)]
pub struct Ring {
    memory: Arc<GuestMemory>,
    size: u16,
    table: Spot,
    avail: Spot,
    used: Spot,
    has_indirect: bool,
    next_avail: Wrapping<u16>,
    next_used: Wrapping<u16>,
    looks: usize,
}

struct Descriptor {
    guest: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    fn parse(bytes: &[u8; DESCRIPTOR_LEN]) -> Descriptor {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
        Descriptor {
            guest: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            len: u32::from_le_bytes([i, j, k, l]),
            flags: u16::from_le_bytes([m, n]),
            next: u16::from_le_bytes([o, p]),
        }
    }
}

/// The table that a chain is read from.
#[derive(Clone, Copy)]
enum Table {
    Ring,
    Indirect { guest: u64, size: u32 },
}

impl Ring {
    /// Finds a ring in the memory.
    ///
    /// # Errors
    /// [`RingFault::Size`], [`RingFault::Address`].
    pub fn open(
        memory: Arc<GuestMemory>,
        spec: &RingSpec,
        has_indirect: bool,
    ) -> Result<Ring, RingFault> {
        let size = u16::try_from(spec.size).ok().filter(|size| *size <= SIZE_MAX);
        let size = size.filter(|size| size.is_power_of_two()).ok_or(RingFault::Size)?;
        let entries = usize::from(size);
        let find = |user: u64, len: usize, align: usize| {
            let spot = memory.find(user, len).ok_or(RingFault::Address)?;
            let is_aligned = memory.at(spot).1.is_multiple_of(align);
            is_aligned.then_some(spot).ok_or(RingFault::Address)
        };
        let table = find(spec.table, DESCRIPTOR_LEN * entries, 16)?;
        let avail = find(spec.avail, 4 + 2 * entries, 2)?;
        let used = find(spec.used, 4 + 8 * entries, 4)?;
        let mut ring = Ring {
            size,
            table,
            avail,
            used,
            has_indirect,
            next_avail: Wrapping(spec.next),
            next_used: Wrapping(0),
            looks: 0,
            memory,
        };
        ring.next_used = Wrapping(ring.load(used, 2, Ordering::Relaxed)?);
        Ok(ring)
    }

    /// The guest's memory.
    #[inline]
    pub(crate) fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// Number of the next available chain.
    pub fn next_avail(&self) -> u16 {
        self.next_avail.0
    }

    /// Chains that are available. Begins a call: as many descriptors may be looked at again.
    ///
    /// # Errors
    /// [`RingFault::AvailJump`], [`RingFault::MemoryGone`].
    #[inline]
    pub fn available(&mut self) -> Result<usize, RingFault> {
        self.looks = 0;
        if self.memory.is_damaged() {
            return Err(RingFault::MemoryGone);
        }
        // Acquire pairs with the driver's barrier before it writes the index: descriptors and
        // entries up to it are there.
        let index = Wrapping(self.load(self.avail, 2, Ordering::Acquire)?);
        let count = (index - self.next_avail).0;
        if count > self.size { Err(RingFault::AvailJump) } else { Ok(usize::from(count)) }
    }

    /// Whether so many descriptors were looked at that the rest is left to the next call.
    #[inline]
    pub fn is_tired(&self) -> bool {
        self.looks >= LOOK_MAX
    }

    /// The pieces of the chain that is `ahead` of the next one: its head, and bytes altogether.
    /// They are added to `pieces`, which has room for [`SIZE_MAX`] more.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn chain(
        &mut self,
        ahead: usize,
        direction: Direction,
        pieces: &mut Vec<Piece>,
    ) -> Result<(u16, u64), RingFault> {
        let entry = usize::from((self.next_avail + Wrapping(ahead as u16)).0 & (self.size - 1));
        let head = self.load(self.avail, 4 + 2 * entry, Ordering::Relaxed)?;
        let first = pieces.len();
        let (mut table, mut index, mut len) = (Table::Ring, head, 0);
        loop {
            self.looks += 1;
            let one = self.descriptor(table, index)?;
            if one.flags & INDIRECT != 0 {
                (table, index) = (self.indirect(table, &one)?, 0);
                continue;
            }
            if (one.flags & WRITE != 0) != (direction == Direction::ToGuest) {
                return Err(RingFault::Direction);
            }
            if pieces.len() - first >= usize::from(self.most(table)) {
                return Err(RingFault::ChainTooLong);
            }
            pieces.push(Piece { guest: one.guest, len: one.len });
            // At most SIZE_MAX times 4 GB.
            len += u64::from(one.len);
            if one.flags & NEXT == 0 {
                return Ok((head, len));
            }
            index = one.next;
        }
    }

    /// Most pieces of a chain.
    fn most(&self, table: Table) -> u16 {
        match table {
            Table::Ring => self.size,
            Table::Indirect { .. } => SIZE_MAX,
        }
    }

    #[inline]
    fn descriptor(&self, table: Table, index: u16) -> Result<Descriptor, RingFault> {
        let mut bytes = [0; DESCRIPTOR_LEN];
        match table {
            Table::Ring if index < self.size => {
                let (region, offset) = self.memory.at(self.table);
                let at = offset + DESCRIPTOR_LEN * usize::from(index);
                region.copy_out(at, &mut bytes).map_err(|_| RingFault::Address)?;
            }
            Table::Indirect { guest, size } if u32::from(index) < size => {
                let at = guest.checked_add(DESCRIPTOR_LEN as u64 * u64::from(index));
                self.memory.copy_out(at.ok_or(RingFault::OutsideMemory)?, &mut bytes)?;
            }
            _ => return Err(RingFault::Index),
        }
        Ok(Descriptor::parse(&bytes))
    }

    /// The table that a descriptor names.
    fn indirect(&self, table: Table, one: &Descriptor) -> Result<Table, RingFault> {
        let size = one.len / DESCRIPTOR_LEN as u32;
        let is_sane = self.has_indirect
            && matches!(table, Table::Ring)
            && one.flags & NEXT == 0
            && one.len.is_multiple_of(DESCRIPTOR_LEN as u32)
            && (1..=u32::from(SIZE_MAX)).contains(&size);
        let indirect = Table::Indirect { guest: one.guest, size };
        is_sane.then_some(indirect).ok_or(RingFault::IndirectTable)
    }

    /// Gives a chain back, the next one that is available; `len` bytes were written to it. The
    /// guest sees it after [`publish`](Self::publish).
    ///
    /// # Errors
    /// None that can be: the ring was found within the memory.
    #[inline]
    pub fn give_back(&mut self, head: u16, len: u32) -> Result<(), RingFault> {
        let (region, offset) = self.memory.at(self.used);
        let entry = usize::from(self.next_used.0 & (self.size - 1));
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        bytes[4..].copy_from_slice(&len.to_le_bytes());
        region.copy_in(offset + 4 + 8 * entry, &bytes).map_err(|_| RingFault::Address)?;
        self.next_avail += 1;
        self.next_used += 1;
        Ok(())
    }

    /// Shows the guest what was given back. Whether it wants to be called.
    ///
    /// # Errors
    /// As [`give_back`](Self::give_back).
    #[inline]
    pub fn publish(&mut self) -> Result<bool, RingFault> {
        // Release pairs with the driver's barrier after it has read the index.
        self.store(self.used, 2, self.next_used.0, Ordering::Release)?;
        // The driver sets its flag, fences, and reads the index; here the other order.
        fence(Ordering::SeqCst);
        Ok(self.load(self.avail, 0, Ordering::Relaxed)? & NO_INTERRUPT == 0)
    }

    /// Whether the guest is to kick. After it was allowed to, what is available must be looked at
    /// again.
    ///
    /// # Errors
    /// As [`give_back`](Self::give_back).
    #[inline]
    pub fn want_kicks(&mut self, wanted: bool) -> Result<(), RingFault> {
        let flags = if wanted { 0 } else { NO_NOTIFY };
        self.store(self.used, 0, flags, Ordering::Relaxed)?;
        if wanted {
            // The driver writes its index, fences, and reads the flag; here the other order.
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    #[inline]
    fn load(&self, spot: Spot, at: usize, order: Ordering) -> Result<u16, RingFault> {
        let (region, offset) = self.memory.at(spot);
        let half = region.half(offset + at).map_err(|_| RingFault::Address)?;
        Ok(u16::from_le(half.load(order)))
    }

    #[inline]
    fn store(&self, spot: Spot, at: usize, value: u16, order: Ordering) -> Result<(), RingFault> {
        let (region, offset) = self.memory.at(spot);
        let half = region.half(offset + at).map_err(|_| RingFault::Address)?;
        half.store(value.to_le(), order);
        Ok(())
    }
}
