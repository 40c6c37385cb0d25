//! The four rings that an AF_XDP socket shares with the kernel: one side writes slots and a
//! producer index, the other reads them and writes a consumer index. Indices run freely modulo
//! 2^32.

use crate::error::PortError;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::XdpRingOffset;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// A received or sent frame (`struct xdp_desc`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Its address: where it begins, from the start of the registered memory; see [`offset_of`].
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: u32,
    pub(super) options: u32,
}

/// The place that an address of the unaligned mode means: a chunk's, and an offset in the top 16
/// bits.
#[inline]
pub(super) fn offset_of(address: u64) -> u64 {
    const OFFSET_SHIFT: u32 = 48;
    (address & ((1 << OFFSET_SHIFT) - 1)) + (address >> OFFSET_SHIFT)
}

/// Values that the kernel may write to a slot: any bytes are one.
pub(super) trait Slot: Copy {}
impl Slot for Descriptor {}
impl Slot for u64 {}

/// `XDP_RING_NEED_WAKEUP`: the kernel waits for a system call.
const NEED_WAKEUP: u32 = 1;

/// Memory under a ring: indices, flags, and a power of two of slots.
pub(super) struct Area {
    base: NonNull<u8>,
    len: usize,
    /// Whether `base` is to be unmapped.
    is_mapped: bool,
    offsets: XdpRingOffset,
    slots: u32,
}

// JUSTIFICATION: a socket is opened in one thread and used by another, and `NonNull` is not Send.
// SAFETY: the mapping is owned by this value alone and is not tied to a thread.
unsafe impl Send for Area {}

impl Area {
    /// Maps a ring of a socket, configured for `slots` slots of `slot_len` bytes.
    pub(super) fn map(
        name: &str,
        socket: &OwnedFd,
        (page, offsets): (u64, XdpRingOffset),
        (slots, slot_len): (u32, usize),
    ) -> Result<Area, PortError> {
        let len = offsets.desc as usize + slots as usize * slot_len;
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // JUSTIFICATION: frames without a system call each.
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap(null_mut(), len, protection, flags, socket, page) };
        let base = base.map_err(|e| PortError::system(name, "mmap of a ring", e.into()))?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Area { base, len, is_mapped: true, offsets, slots })
    }

    /// An index or flags word.
    fn word(&self, offset: u64) -> &AtomicU32 {
        let at = self.base.as_ptr().wrapping_add(offset as usize);
        debug_assert!(offset as usize + 4 <= self.len);
        // JUSTIFICATION: the word is shared with the kernel.
        // SAFETY: the kernel gave the offset for this mapping (or a test did): it lies within,
        // aligned; both sides access it atomically, and it lives as long as `self`.
        unsafe { AtomicU32::from_ptr(at.cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    fn needs_wakeup(&self) -> bool {
        // Relaxed: the flag alone is of interest, and a late look only delays the call.
        let flags = |at| self.word(at).load(Ordering::Relaxed);
        self.offsets.flags.is_some_and(|at| flags(at) & NEED_WAKEUP != 0)
    }

    /// The slot of a free-running index.
    #[inline]
    fn slot<T: Slot>(&self, index: u32) -> *mut T {
        let at = (index & (self.slots - 1)) as usize;
        self.base.as_ptr().wrapping_add(self.offsets.desc as usize).cast::<T>().wrapping_add(at)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if !self.is_mapped {
            return;
        }
        // JUSTIFICATION: the counterpart of `mmap`.
        // SAFETY: the range is what `mmap` returned, and no reference into it is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A ring filled by the kernel: received frames, completions.
pub(super) struct Consumer<T> {
    area: Area,
    /// The next slot to read.
    next: u32,
    /// The kernel's index when it was last read.
    seen: u32,
    slot: PhantomData<T>,
}

impl<T: Slot> Consumer<T> {
    pub(super) fn new(area: Area) -> Consumer<T> {
        let next = area.consumer().load(Ordering::Relaxed);
        Consumer { area, next, seen: next, slot: PhantomData }
    }

    /// Whether slots wait to be read in more than half of the ring.
    #[inline]
    pub(super) fn is_half_full(&mut self) -> bool {
        // Acquire: as in `take`, which goes by this index.
        self.seen = self.area.producer().load(Ordering::Acquire);
        self.seen.wrapping_sub(self.next) > self.area.slots / 2
    }

    /// Gives up to `max` slots to `take`, in order, and then back to the kernel; says how many.
    #[inline]
    pub(super) fn take(&mut self, max: usize, mut take: impl FnMut(T)) -> usize {
        if self.seen == self.next {
            // Acquire: pairs with the kernel's release of the producer index after it wrote the
            // slots and the frames (xskq_prod_submit), so that both are seen as written.
            self.seen = self.area.producer().load(Ordering::Acquire);
        }
        // However far the kernel says it is, there are no more slots than the ring has.
        let ready = self.seen.wrapping_sub(self.next).min(self.area.slots);
        let count = (ready as usize).min(max);
        for at in 0..count as u32 {
            // JUSTIFICATION: slots are shared with the kernel.
            // SAFETY: `slot` masks the index: the place lies in the mapping, aligned (slots begin
            // at a cache line); any bytes are a valid T, and it is read once, by value.
            take(unsafe { self.area.slot::<T>(self.next.wrapping_add(at)).read_volatile() });
        }
        if count > 0 {
            self.next = self.next.wrapping_add(count as u32);
            // Release: the slots were read before the kernel may write them again; pairs with its
            // acquire of the consumer index (xskq_prod_nb_free).
            self.area.consumer().store(self.next, Ordering::Release);
        }
        count
    }
}

/// A ring filled by us: free frames, frames to send.
pub(super) struct Producer<T> {
    area: Area,
    /// The next slot to write.
    next: u32,
    /// The kernel's index when it was last read.
    seen: u32,
    slot: PhantomData<T>,
}

impl<T: Slot> Producer<T> {
    pub(super) fn new(area: Area) -> Producer<T> {
        let next = area.producer().load(Ordering::Relaxed);
        Producer { area, next, seen: next, slot: PhantomData }
    }

    /// Slots there are.
    pub(super) fn slots(&self) -> usize {
        self.area.slots as usize
    }

    /// Slots that may be written. The kernel is asked only when fewer than `wanted` are known.
    #[inline]
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        let slots = self.area.slots;
        let known = |seen: u32| slots.saturating_sub(self.next.wrapping_sub(seen)) as usize;
        if known(self.seen) < wanted {
            // Acquire: pairs with the kernel's release of the consumer index after it read the
            // slots (xskq_cons_release), so that they are not overwritten before.
            self.seen = self.area.consumer().load(Ordering::Acquire);
        }
        // An index that no honest kernel has leaves no room.
        slots.saturating_sub(self.next.wrapping_sub(self.seen)) as usize
    }

    /// Writes a slot; [`Producer::room`] said that there is one. [`Producer::publish`] hands it
    /// over.
    #[inline]
    pub(super) fn put(&mut self, value: T) {
        // JUSTIFICATION: slots are shared with the kernel.
        // SAFETY: `slot` masks the index: the place lies in the mapping, aligned; the kernel does
        // not read it before it is published.
        unsafe { self.area.slot::<T>(self.next).write_volatile(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Hands the written slots to the kernel.
    #[inline]
    pub(super) fn publish(&mut self) {
        // Release: slots and frames were written before; pairs with the kernel's acquire of the
        // producer index (xskq_cons_get_entries).
        self.area.producer().store(self.next, Ordering::Release);
    }

    /// Published slots that the kernel has not taken yet.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        // Relaxed: a number to decide by, no slot is written after it.
        self.next.wrapping_sub(self.area.consumer().load(Ordering::Relaxed)) as usize
    }

    /// Whether the kernel waits for a system call.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.area.needs_wakeup()
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
