//! Errors, and their remedies.

use std::io;

/// A region that could not be made, or an access that fell outside one.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// A region of no bytes, or of more than the address space holds.
    #[error("a region of {len} bytes cannot be mapped: ask for 1 byte to {max}", max = isize::MAX)]
    BadLength {
        /// Bytes asked for.
        len: usize,
    },
    /// A system call refused.
    #[error("cannot make a shared region of {len} bytes: {step} failed: {source}")]
    System {
        /// The system call.
        step: &'static str,
        /// Bytes asked for, rounded up to pages.
        len: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// Huge pages were required and are not available.
    #[error("no huge pages for a region of {len} bytes: {reason}")]
    NoHugePages {
        /// Bytes asked for, rounded up to 2 MB.
        len: usize,
        /// Why.
        reason: NoHuge,
    },
    /// A region that was handed over and could still shrink under the mapping.
    #[error("the region that was handed over is not sealed against shrinking: it is not Thruway's")]
    NotSealed,
    /// The lent file is not memory.
    #[error(
        "the file that was handed over is no memory: use a memfd, or a file on tmpfs or hugetlbfs"
    )]
    NoMemoryFile,
    /// A copy beyond the region.
    #[error("bytes {offset}..+{count} lie outside a region of {len} bytes")]
    OutOfBounds {
        /// First byte of the access.
        offset: usize,
        /// Bytes accessed.
        count: usize,
        /// The region's length.
        len: usize,
    },
}

/// Why a region has no huge pages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoHuge {
    /// The caller asked for normal pages.
    #[error("normal pages were asked for")]
    NotAsked,
    /// The kernel's pool of 2 MB pages is too small.
    #[error(
        "{needed} free huge pages of 2 MB are needed and {free} are free; \
         raise /proc/sys/vm/nr_hugepages"
    )]
    TooFewFree {
        /// Pages that the region needs.
        needed: usize,
        /// Pages that are free and not reserved.
        free: usize,
    },
    /// The kernel has pages but refused the mapping.
    #[error("{step} failed: {message}")]
    Refused {
        /// The system call.
        step: &'static str,
        /// The kernel's error.
        message: String,
    },
    /// This platform has no memfd (the interpreter that checks undefined behaviour).
    #[error("not supported on this platform")]
    Unsupported,
}
