//! Shared memory regions: memfd, huge pages when there are any.
//!
//! A [`Region`] is memory that this process maps and that it may hand, as a file descriptor, to
//! another. It is sealed against growing and shrinking, so a peer that holds the descriptor cannot
//! pull pages from under the mapping (an access would be SIGBUS). Pages are given on first touch:
//! a large region costs what is used of it.
//!
//! Invariant: this crate never makes a `&[u8]` of a region. Whether a reference may exist is for
//! the owner of the bytes to know (`dataplane/packet`, [`SharedBytes::as_mut_slice`]); bytes that
//! an untrusted peer may change under our hands are only ever copied ([`SharedBytes`]).

mod copy;
#[cfg(not(miri))]
mod device;
mod error;
#[cfg(not(any(loom, miri)))]
mod guard;
mod heap;
mod huge;
#[cfg_attr(miri, path = "mapping_heap.rs")]
mod mapping;
mod shared;

#[cfg(not(miri))]
pub use device::DeviceMemory;
pub use error::{NoHuge, RegionError};
pub use heap::{Heap, fallible};
pub use huge::HUGE_PAGE_LEN;
pub use shared::SharedBytes;

use mapping::Mapping;
use std::ptr::NonNull;
#[cfg(not(loom))]
use thruway_sync::atomic::{AtomicU16, AtomicU32};

/// Which pages to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// The system's normal pages, advised to become transparent huge pages where the kernel will.
    Normal,
    /// Huge pages of 2 MB, or an error.
    Huge,
    /// Huge pages of 2 MB if the kernel has enough of them free, normal ones otherwise.
    PreferHuge,
    /// Normal pages of this process alone, which cannot be handed to another: for processes that
    /// may make no files.
    Private,
}

/// A shared mapping of zeroed memory; unmapped on drop.
#[derive(Debug)]
pub struct Region {
    /// Before the mapping: it goes first.
    #[cfg(not(any(loom, miri)))]
    guard: Option<guard::Guard>,
    mapping: Mapping,
    len: usize,
    no_huge: Option<NoHuge>,
}

// JUSTIFICATION: a region is shared by the threads of the engine, and `NonNull` is not Send.
// SAFETY: the mapping is owned by this value alone and is unmapped once, by whichever thread drops
// it; nothing in it is tied to the thread that made it.
unsafe impl Send for Region {}
// JUSTIFICATION: as above.
// SAFETY: `&Region` gives out a raw pointer (using it is the user's unsafe) and volatile copies,
// which race with others only as accesses to memory that may always be changed by another process.
unsafe impl Sync for Region {}

impl Region {
    /// Maps a region of at least `len` bytes, zeroed, rounded up to whole pages.
    ///
    /// # Errors
    /// [`RegionError::BadLength`], [`RegionError::System`], and for [`Pages::Huge`] alone
    /// [`RegionError::NoHugePages`].
    pub fn new(len: usize, pages: Pages) -> Result<Region, RegionError> {
        let no_huge = match pages {
            Pages::Normal | Pages::Private => NoHuge::NotAsked,
            Pages::Huge | Pages::PreferHuge => {
                let len_huge = round_up(len, HUGE_PAGE_LEN)?;
                match Mapping::huge(len_huge) {
                    Ok(mapping) => return Ok(Region::over(mapping, len_huge, None)),
                    Err(reason) if pages == Pages::Huge => {
                        return Err(RegionError::NoHugePages { len: len_huge, reason });
                    }
                    Err(reason) => reason,
                }
            }
        };
        let len = round_up(len, mapping::page_len())?;
        let mapping = match pages {
            Pages::Private => Mapping::private(len)?,
            _ => Mapping::normal(len)?,
        };
        Ok(Region::over(mapping, len, Some(no_huge)))
    }

    fn over(mapping: Mapping, len: usize, no_huge: Option<NoHuge>) -> Region {
        Region {
            #[cfg(not(any(loom, miri)))]
            guard: None,
            mapping,
            len,
            no_huge,
        }
    }

    /// Guards a region that others can write: where the kernel has no page for it any more, the
    /// thread that touches it gets fresh memory in place of SIGBUS, and the region is damaged.
    /// Installs a handler of that signal; faults elsewhere go to the one that was there.
    #[must_use]
    pub fn guarded(self) -> Region {
        #[cfg(not(any(loom, miri)))]
        {
            let unit = if self.no_huge.is_none() { HUGE_PAGE_LEN } else { mapping::page_len() };
            let guard = guard::Guard::new(self.as_ptr().as_ptr().addr(), self.len, unit);
            Region { guard: Some(guard), ..self }
        }
        #[cfg(any(loom, miri))]
        self
    }

    /// Whether a page of a [guarded](Region::guarded) region was lost: its content is no longer the
    /// one that others see.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        #[cfg(not(any(loom, miri)))]
        {
            self.guard.as_ref().is_some_and(guard::Guard::is_damaged)
        }
        #[cfg(any(loom, miri))]
        false
    }

    /// The first byte; aligned to a page.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.ptr()
    }

    /// Bytes mapped: the requested length, rounded up to whole pages.
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The pages that were got: [`Pages::Normal`] or [`Pages::Huge`], never
    /// another.
    pub fn pages(&self) -> Pages {
        if self.no_huge.is_none() { Pages::Huge } else { Pages::Normal }
    }

    /// Why these are not huge pages; `None` when they are.
    pub fn why_not_huge(&self) -> Option<&NoHuge> {
        self.no_huge.as_ref()
    }

    /// The descriptor to hand to another process. It is sealed: no process can change the length.
    ///
    /// # Panics
    /// Where the region was made with [`Pages::Private`]: there is none.
    #[cfg(not(miri))]
    pub fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.mapping.fd().expect("a private region is not handed over")
    }

    /// Maps the region that another process made and handed over, or the memory that a
    /// [`DeviceMemory`] describes.
    ///
    /// # Errors
    /// [`RegionError::NotSealed`] when its length may still change (an access could then be
    /// SIGBUS), [`RegionError::System`] when it cannot be mapped.
    #[cfg(not(miri))]
    pub fn open(fd: std::os::fd::OwnedFd) -> Result<Region, RegionError> {
        let mapping = match DeviceMemory::of(&fd) {
            Some(memory) => memory.map()?,
            None => Mapping::open(fd)?,
        };
        let len = mapping.len();
        Ok(Region::over(mapping, len, Some(NoHuge::NotAsked)))
    }

    /// Maps the first `len` bytes of a file that another process made, keeps, and may shorten at
    /// any moment; rounded up to whole pages of that file. The region is guarded. Only files of
    /// memory are taken: pages of other files come from their server, which may never answer.
    ///
    /// # Errors
    /// [`RegionError::NoMemoryFile`], [`RegionError::OutOfBounds`] where the file is shorter,
    /// [`RegionError::System`] when it cannot be mapped.
    #[cfg(not(any(loom, miri)))]
    pub fn lent(fd: std::os::fd::OwnedFd, len: usize) -> Result<Region, RegionError> {
        let (mapping, unit) = Mapping::lent(fd, len)?;
        let len = mapping.len();
        let region = Region::over(mapping, len, Some(NoHuge::NotAsked));
        let guard = guard::Guard::new(region.as_ptr().as_ptr().addr(), len, unit);
        Ok(Region { guard: Some(guard), ..region })
    }

    /// A range of the region.
    ///
    /// # Errors
    /// [`RegionError::OutOfBounds`].
    #[inline]
    pub fn bytes(&self, offset: usize, count: usize) -> Result<SharedBytes<'_>, RegionError> {
        let at = self.checked(offset, count)?;
        // JUSTIFICATION: the one place that makes shared bytes.
        // SAFETY: `checked` proved that the range lies within the mapping, which lives as long as
        // `self`; this crate makes no references to a region's bytes, and `as_mut_slice` is unsafe.
        Ok(unsafe { SharedBytes::new(at, count) })
    }

    /// A word that processes share, as an atomic.
    ///
    /// # Errors
    /// [`RegionError::OutOfBounds`], also when `offset` is not a multiple of four.
    #[cfg(not(loom))]
    #[inline]
    pub fn word(&self, offset: usize) -> Result<&AtomicU32, RegionError> {
        let at = self.checked(offset, 4)?.cast::<u32>();
        if !at.is_aligned() {
            return Err(RegionError::OutOfBounds { offset, count: 4, len: self.len });
        }
        // JUSTIFICATION: indices are shared between processes.
        // SAFETY: aligned and within the mapping, which outlives the reference; any bits are a u32.
        // Copying bytes over a word that others use as an atomic yields one value or the other:
        // x86-64 and arm64 do not tear aligned words.
        Ok(unsafe { AtomicU32::from_ptr(at) })
    }

    /// Half a word that others share, as an atomic: an index of a virtqueue.
    ///
    /// # Errors
    /// [`RegionError::OutOfBounds`], also when `offset` is odd.
    #[cfg(not(loom))]
    #[inline]
    pub fn half(&self, offset: usize) -> Result<&AtomicU16, RegionError> {
        let at = self.checked(offset, 2)?.cast::<u16>();
        if !at.is_aligned() {
            return Err(RegionError::OutOfBounds { offset, count: 2, len: self.len });
        }
        // JUSTIFICATION: indices are shared with a virtual machine.
        // SAFETY: as in `word`.
        Ok(unsafe { AtomicU16::from_ptr(at) })
    }

    /// Asks the processor for the line at `offset`, to read it soon. Outside of the region it does
    /// nothing of use, and no harm.
    #[inline(always)]
    pub fn prefetch(&self, offset: usize) {
        shared::prefetch(self.as_ptr().as_ptr().wrapping_add(offset));
    }

    /// Asks the processor for the line at `offset`, to write it soon: it takes the line from other
    /// cores before the write comes, so that writes do not wait for one another.
    #[inline(always)]
    pub fn prefetch_write(&self, offset: usize) {
        shared::prefetch_write(self.as_ptr().as_ptr().wrapping_add(offset));
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// [`RegionError::OutOfBounds`]; nothing was written.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), RegionError> {
        self.bytes(offset, bytes.len())?.copy_from(bytes);
        Ok(())
    }

    /// Copies from `offset` into `bytes`; examine only the copy.
    ///
    /// # Errors
    /// [`RegionError::OutOfBounds`]; nothing was read.
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) -> Result<(), RegionError> {
        self.bytes(offset, bytes.len())?.copy_to(bytes);
        Ok(())
    }

    /// The address of `offset`, if the region contains `count` bytes from there.
    #[inline]
    fn checked(&self, offset: usize, count: usize) -> Result<*mut u8, RegionError> {
        match offset.checked_add(count) {
            Some(end) if end <= self.len => Ok(self.as_ptr().as_ptr().wrapping_add(offset)),
            _ => Err(RegionError::OutOfBounds { offset, count, len: self.len }),
        }
    }
}

/// `len` rounded up to a multiple of `unit`, within the limits of a mapping.
fn round_up(len: usize, unit: usize) -> Result<usize, RegionError> {
    match len.checked_next_multiple_of(unit) {
        Some(rounded) if len > 0 && rounded <= isize::MAX as usize => Ok(rounded),
        _ => Err(RegionError::BadLength { len }),
    }
}

#[cfg(test)]
mod tests;
