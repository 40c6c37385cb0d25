//! A memfd, mapped and sealed; or memory of the process alone.

use crate::{HUGE_PAGE_LEN, NoHuge, RegionError};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate,
    memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

/// File systems of memory, by their magic numbers (include/uapi/linux/magic.h of Linux).
const TMPFS: u32 = 0x0102_1994;
const HUGETLBFS: u32 = 0x9584_58f6;

#[derive(Debug)]
pub(crate) struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
    /// None of memory that is this process's alone.
    fd: Option<OwnedFd>,
}

/// The system's page size, in bytes.
pub(crate) fn page_len() -> usize {
    rustix::param::page_size()
}

impl Mapping {
    /// Huge pages, or why not. `len` is a multiple of [`HUGE_PAGE_LEN`].
    pub(crate) fn huge(len: usize) -> Result<Mapping, NoHuge> {
        let needed = len / HUGE_PAGE_LEN;
        let free = huge_pages_free();
        if free < needed {
            return Err(NoHuge::TooFewFree { needed, free });
        }
        // Mapping reserves the pages, so that a first touch later cannot be a SIGBUS.
        Self::map(len, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)
            .map_err(|(step, errno)| NoHuge::Refused { step, message: errno.to_string() })
    }

    /// Normal pages. `len` is a multiple of [`page_len`].
    pub(crate) fn normal(len: usize) -> Result<Mapping, RegionError> {
        let mapping = Self::map(len, MemfdFlags::empty())
            .map_err(|(step, errno)| RegionError::System { step, len, source: errno.into() })?;
        if len >= HUGE_PAGE_LEN {
            mapping.advise_huge();
        }
        Ok(mapping)
    }

    /// Normal pages of this process alone: no file, no descriptor.
    pub(crate) fn private(len: usize) -> Result<Mapping, RegionError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // JUSTIFICATION: a process that may make no files still needs pages.
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let address = unsafe { mmap_anonymous(null_mut(), len, protection, MapFlags::PRIVATE) };
        let address = address.and_then(|at| NonNull::new(at.cast()).ok_or(Errno::NOMEM));
        let ptr = address.map_err(|errno| RegionError::System {
            step: "mmap",
            len,
            source: errno.into(),
        })?;
        let mapping = Mapping { ptr, len, fd: None };
        if len >= HUGE_PAGE_LEN {
            mapping.advise_huge();
        }
        Ok(mapping)
    }

    /// Another process's region.
    pub(crate) fn open(fd: OwnedFd) -> Result<Mapping, RegionError> {
        let seals = fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return Err(RegionError::NotSealed);
        }
        let len = fstat(&fd).map_or(0, |stat| usize::try_from(stat.st_size).unwrap_or(0));
        let system = |step, errno: Errno| RegionError::System { step, len, source: errno.into() };
        let ptr = Self::map_fd(&fd, len, 0).map_err(|errno| system("mmap", errno))?;
        Ok(Mapping { ptr, len, fd: Some(fd) })
    }

    /// Part of a device's memory, which has no length that could change.
    pub(crate) fn device(fd: OwnedFd, len: usize, offset: u64) -> Result<Mapping, Errno> {
        let ptr = Self::map_fd(&fd, len, offset)?;
        Ok(Mapping { ptr, len, fd: Some(fd) })
    }

    /// The first `len` bytes of another process's memory file, which may change its length, and the
    /// length of its pages.
    pub(crate) fn lent(fd: OwnedFd, len: usize) -> Result<(Mapping, usize), RegionError> {
        let system = |step, errno: Errno| RegionError::System { step, len, source: errno.into() };
        let kind = fstatfs(&fd).map_err(|errno| system("fstatfs", errno))?.f_type;
        // As wide as the C library has it.
        let kind = u32::try_from(kind).unwrap_or(0);
        if ![TMPFS, HUGETLBFS].contains(&kind) {
            return Err(RegionError::NoMemoryFile);
        }
        let about = fstat(&fd).map_err(|errno| system("fstat", errno))?;
        let file_len = usize::try_from(about.st_size).unwrap_or(0);
        if len == 0 || file_len < len {
            return Err(RegionError::OutOfBounds { offset: 0, count: len, len: file_len });
        }
        let is_huge = kind == HUGETLBFS;
        let unit = if is_huge { usize::try_from(about.st_blksize).unwrap_or(0) } else { 0 };
        let unit = unit.max(page_len());
        let whole = len.checked_next_multiple_of(unit).filter(|len| *len <= isize::MAX as usize);
        let len = whole.ok_or(RegionError::BadLength { len })?;
        let ptr = Self::map_fd(&fd, len, 0).map_err(|errno| system("mmap", errno))?;
        Ok((Mapping { ptr, len, fd: None }, unit))
    }

    fn map(len: usize, kind: MemfdFlags) -> Result<Mapping, (&'static str, Errno)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind;
        let fd = memfd_create("thruway-region", flags).map_err(|e| ("memfd_create", e))?;
        ftruncate(&fd, len as u64).map_err(|e| ("ftruncate", e))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&fd, seals).map_err(|e| ("fcntl(F_ADD_SEALS)", e))?;
        let ptr = Self::map_fd(&fd, len, 0).map_err(|e| ("mmap", e))?;
        Ok(Mapping { ptr, len, fd: Some(fd) })
    }

    /// Maps a file of sealed length, a device's memory, or a range to be guarded.
    fn map_fd(fd: &OwnedFd, len: usize, offset: u64) -> Result<NonNull<u8>, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // JUSTIFICATION: memory shared with another process has no safe interface.
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing; the seals
        // keep its length for good, a device's memory has a fixed one, and what is lent is guarded
        // before anybody gets its address.
        let address = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, fd, offset) }?;
        NonNull::new(address.cast()).ok_or(Errno::NOMEM)
    }

    /// Asks for transparent huge pages. Refusal costs speed and nothing else, so it is not an
    /// error.
    fn advise_huge(&self) {
        let address = self.ptr.as_ptr().cast::<c_void>();
        // JUSTIFICATION: fewer TLB misses on large pools, with nothing to set up on the machine.
        // SAFETY: the range is our own mapping, and this advice does not change its contents.
        let _ = unsafe { madvise(address, self.len, Advice::LinuxHugepage) };
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(|fd| fd.as_fd())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let address = self.ptr.as_ptr().cast::<c_void>();
        // JUSTIFICATION: the counterpart of `mmap`.
        // SAFETY: the range is exactly what `mmap` returned, and nothing borrows it any more: every
        // pointer that was given out is documented to live no longer than the region.
        let _ = unsafe { munmap(address, self.len) };
    }
}

/// Huge pages of 2 MB that are free and not promised to another mapping.
fn huge_pages_free() -> usize {
    let read = |name: &str| -> usize {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}");
        std::fs::read_to_string(path).ok().and_then(|s| s.trim().parse().ok()).unwrap_or(0)
    };
    // Pages beyond the pool that the kernel may allocate on demand count as free.
    let overcommit = read("nr_overcommit_hugepages").saturating_sub(read("surplus_hugepages"));
    read("free_hugepages").saturating_sub(read("resv_hugepages")).saturating_add(overcommit)
}
