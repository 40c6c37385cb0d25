//! A guest's memory, as a front-end hands it over: files, and where each is in the guest.

use std::os::fd::OwnedFd;

use thruway_region::{Region, RegionError, SharedBytes};

/// Parts that a guest's memory may have (VHOST_MEMORY_BASELINE_NREGIONS).
pub(crate) const PARTS_MAX: usize = 8;

/// Longest memory of a guest, bytes: more is no machine's.
const LEN_MAX: u64 = 1 << 40;

/// Where a file is in the guest, and in the front-end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPart {
    /// First address in the guest.
    pub guest: u64,
    /// Bytes.
    pub len: u64,
    /// First address in the front-end's process.
    pub user: u64,
    /// Where in the file it begins.
    pub offset: u64,
}

/// Why memory is refused.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Too few or too many parts or descriptors.
    #[error("{parts} parts of memory with {fds} descriptors; 1 to {PARTS_MAX}, one for each")]
    Count {
        /// Parts.
        parts: usize,
        /// Descriptors.
        fds: usize,
    },
    /// A part with addresses that no memory has.
    #[error(
        "a part of memory of {len:#x} bytes at {guest:#x} is none: empty, too long, or beyond the last address"
    )]
    Extent {
        /// Its address.
        guest: u64,
        /// Its length.
        len: u64,
    },
    /// Two parts at one address.
    #[error("two parts of memory overlap")]
    Overlap,
    /// It cannot be mapped.
    #[error(transparent)]
    Region(#[from] RegionError),
}

/// A range that lies outside of the guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outside;

/// A place in one part of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    part: usize,
    offset: usize,
}

#[derive(Debug)]
struct Mapped {
    part: MemoryPart,
    region: Region,
}

/// The memory of a guest, mapped.
#[derive(Debug)]
pub struct GuestMemory {
    parts: Vec<Mapped>,
}

impl GuestMemory {
    /// Maps what a front-end handed over. All addresses and lengths are checked, against each other
    /// and against the files.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn map(parts: &[MemoryPart], fds: Vec<OwnedFd>) -> Result<GuestMemory, MemoryError> {
        if parts.is_empty() || parts.len() > PARTS_MAX || parts.len() != fds.len() {
            return Err(MemoryError::Count { parts: parts.len(), fds: fds.len() });
        }
        for (at, part) in parts.iter().enumerate() {
            part.check()?;
            if parts[..at].iter().any(|other| part.overlaps(other)) {
                return Err(MemoryError::Overlap);
            }
        }
        let mapped = parts.iter().zip(fds).map(|(part, fd)| {
            // `check` bounded the sum.
            let region = Region::lent(fd, (part.offset + part.len) as usize)?;
            Ok(Mapped { part: *part, region })
        });
        Ok(GuestMemory { parts: mapped.collect::<Result<_, RegionError>>()? })
    }

    /// Whether pages of it went away.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.parts.iter().any(|mapped| mapped.region.is_damaged())
    }

    /// Copies from an address of the guest; a range may go on in the next part.
    #[inline]
    pub(crate) fn copy_out(&self, guest: u64, bytes: &mut [u8]) -> Result<(), Outside> {
        if let Some(from) = self.range(guest, bytes.len()) {
            from.copy_to(bytes);
            return Ok(());
        }
        let (mut guest, mut at) = (guest, 0);
        while at < bytes.len() {
            let from = self.beginning(guest, bytes.len() - at).ok_or(Outside)?;
            let end = at + from.len();
            from.copy_to(&mut bytes[at..end]);
            guest = guest.wrapping_add(from.len() as u64);
            at = end;
        }
        Ok(())
    }

    /// Copies to an address of the guest; a range may go on in the next part.
    #[inline]
    pub(crate) fn copy_in(&self, guest: u64, bytes: &[u8]) -> Result<(), Outside> {
        if let Some(to) = self.range(guest, bytes.len()) {
            to.copy_from(bytes);
            return Ok(());
        }
        let (mut guest, mut at) = (guest, 0);
        while at < bytes.len() {
            let to = self.beginning(guest, bytes.len() - at).ok_or(Outside)?;
            let end = at + to.len();
            to.copy_from(&bytes[at..end]);
            guest = guest.wrapping_add(to.len() as u64);
            at = end;
        }
        Ok(())
    }

    /// A range of the guest that lies in one part, as nearly all do.
    #[inline]
    fn range(&self, guest: u64, len: usize) -> Option<SharedBytes<'_>> {
        let mapped = self.parts.iter().find(|mapped| mapped.part.has(guest))?;
        let within = guest - mapped.part.guest;
        let is_inside = len as u64 <= mapped.part.len - within;
        let offset = (mapped.part.offset + within) as usize;
        is_inside.then(|| mapped.region.bytes(offset, len).ok())?
    }

    /// As much of a range as lies in the part where it begins; not empty.
    #[cold]
    fn beginning(&self, guest: u64, len: usize) -> Option<SharedBytes<'_>> {
        let mapped = self.parts.iter().find(|mapped| mapped.part.has(guest))?;
        let left = mapped.part.len - (guest - mapped.part.guest);
        self.range(guest, len.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    /// Where a range of the front-end's addresses is: rings are named so. It lies in one part.
    pub(crate) fn find(&self, user: u64, len: usize) -> Option<Spot> {
        let at = self.parts.iter().position(|mapped| {
            let within = user.wrapping_sub(mapped.part.user);
            within < mapped.part.len && len as u64 <= mapped.part.len - within
        })?;
        let part = &self.parts[at].part;
        Some(Spot { part: at, offset: (part.offset + (user - part.user)) as usize })
    }

    /// The region that a spot is in, and where.
    #[inline]
    pub(crate) fn at(&self, spot: Spot) -> (&Region, usize) {
        (&self.parts[spot.part].region, spot.offset)
    }
}

impl MemoryPart {
    fn has(&self, guest: u64) -> bool {
        guest.wrapping_sub(self.guest) < self.len
    }

    fn check(&self) -> Result<(), MemoryError> {
        let fits = |start: u64| start.checked_add(self.len).is_some();
        let is_sane = self.len > 0
            && self.len <= LEN_MAX
            && self.offset <= LEN_MAX
            && fits(self.guest)
            && fits(self.user);
        let error = MemoryError::Extent { guest: self.guest, len: self.len };
        is_sane.then_some(()).ok_or(error)
    }

    fn overlaps(&self, other: &MemoryPart) -> bool {
        let meet = |a: u64, b: u64| a < b + other.len && b < a + self.len;
        meet(self.guest, other.guest) || meet(self.user, other.user)
    }
}
