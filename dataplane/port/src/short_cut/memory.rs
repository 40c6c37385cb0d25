//! The slots of sessions, in memory that the kernel's programs share.

use super::layout::{SLOT_LEN, SLOTS};
use crate::bpf;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use thruway_sync::atomic::{AtomicU32, AtomicU64};

/// An array map and its mapping.
pub(super) struct Memory {
    map: OwnedFd,
    base: NonNull<u8>,
    len: usize,
}

// JUSTIFICATION: several threads use one table, and `NonNull` is neither Send nor Sync.
// SAFETY: the mapping is owned by this value, is not tied to a thread, and is only reached by
// atomics.
unsafe impl Send for Memory {}
// JUSTIFICATION: as above.
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Length of a page at most, by which mappings are rounded up.
const PAGE_LEN: usize = 1 << 16;

impl Memory {
    /// Memory for all slots.
    pub(super) fn slots() -> io::Result<Memory> {
        Memory::new(SLOT_LEN, SLOTS)
    }

    /// Memory for one value of 64 bits.
    pub(super) fn word() -> io::Result<Memory> {
        Memory::new(8, 1)
    }

    fn new(value_len: u32, entries: u32) -> io::Result<Memory> {
        let map = bpf::shared_array(value_len, entries)?;
        let page = rustix::param::page_size().min(PAGE_LEN);
        let len = (value_len as usize * entries as usize).next_multiple_of(page);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // JUSTIFICATION: slots are read and written without a system call each.
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, &map, 0) };
        let base = NonNull::new(base?.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { map, base, len })
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset.is_multiple_of(len) && offset + len <= self.len);
        self.base.as_ptr().wrapping_add(offset)
    }

    /// 32 bits at an offset, a multiple of 4 within the map.
    pub(super) fn word32(&self, offset: usize) -> &AtomicU32 {
        // JUSTIFICATION: the kernel's programs write here, too.
        // SAFETY: the place is within the mapping and aligned (`at`), and both sides access it by
        // whole words.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// 64 bits at an offset, a multiple of 8 within the map.
    pub(super) fn word64(&self, offset: usize) -> &AtomicU64 {
        // JUSTIFICATION: as in `word32`.
        // SAFETY: as in `word32`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // JUSTIFICATION: the counterpart of `mmap`.
        // SAFETY: the range is what `mmap` returned, and what refers to it borrows this value.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
