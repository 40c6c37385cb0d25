//! A region that is a device's memory: that of a virtual machine's host, as the machine sees it.

use std::os::fd::OwnedFd;

use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create,
    open as open_file,
};
use rustix::io::{Errno, pread, write};

use crate::RegionError;
use crate::mapping::Mapping;

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"THRUWDEV";

/// Bytes of the file.
const LEN: usize = 24;

/// Longest device memory that is mapped, bytes.
const LEN_MAX: u64 = 1 << 40;

/// Memory of a device in this machine, which takes the place of a region where one is handed over
/// by its descriptor.
///
/// [`Region::open`](crate::Region::open) maps it as normal, cached memory by `/dev/mem`: by the
/// device's own file in sysfs it would not be cached, where the machine's processor honours that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Physical address of its first byte.
    pub address: u64,
    /// Its bytes.
    pub len: u64,
}

impl DeviceMemory {
    /// A file that describes its location: to be passed to another process. It is sealed against
    /// writing, which no region is, so that a packet's content is never taken for one.
    ///
    /// # Errors
    /// [`RegionError::System`].
    pub fn file(self) -> Result<OwnedFd, RegionError> {
        let make = || {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let fd = memfd_create("thruway-device", flags)?;
            let bytes = [MAGIC, self.address.to_le_bytes(), self.len.to_le_bytes()].concat();
            write(&fd, &bytes)?;
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
            fcntl_add_seals(&fd, seals)?;
            Ok(fd)
        };
        make().map_err(|error: Errno| system("memfd_create", LEN as u64, error))
    }

    /// The description in a file; `None` if it is another file, or may still be written to.
    pub(crate) fn of(fd: &OwnedFd) -> Option<DeviceMemory> {
        if !fcntl_get_seals(fd).ok()?.contains(SealFlags::WRITE) {
            return None;
        }
        let mut bytes = [0; LEN];
        let is_whole = pread(fd, &mut bytes, 0).ok()? == LEN;
        if !is_whole || fstat(fd).ok()?.st_size != LEN as i64 || bytes[..8] != MAGIC {
            return None;
        }
        let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let (address, len) = (word(8)?, word(16)?);
        (len <= LEN_MAX).then_some(DeviceMemory { address, len })
    }

    /// Maps it.
    pub(crate) fn map(self) -> Result<Mapping, RegionError> {
        let DeviceMemory { address, len } = self;
        let bytes = usize::try_from(len).map_err(|_| RegionError::BadLength { len: LEN })?;
        // Without O_SYNC: cached, as far as the machine's memory types allow.
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let memory = open_file("/dev/mem", flags, Mode::empty())
            .map_err(|error| system("open(/dev/mem)", len, error))?;
        Mapping::device(memory, bytes, address)
            .map_err(|error| system("mmap(/dev/mem)", len, error))
    }
}

fn system(step: &'static str, len: u64, source: Errno) -> RegionError {
    RegionError::System { step, len: len as usize, source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[test]
    fn a_file_says_where_the_memory_is_and_cannot_be_changed() {
        let memory = DeviceMemory { address: 0x1_0000_0000, len: 8192 };
        let fd = memory.file().expect("a file");
        assert_eq!(DeviceMemory::of(&fd), Some(memory));
        assert!(write(&fd, b"x").is_err());
    }

    #[test]
    fn other_files_are_not_taken_for_one() {
        let unsealed = Region::new(4096, crate::Pages::Normal).expect("a region");
        let memory = DeviceMemory { address: 1 << 32, len: 4096 };
        let mut said = [0; LEN];
        pread(memory.file().expect("a file"), &mut said, 0).expect("it is there");
        unsealed.copy_in(0, &said).expect("room");
        let fd = unsealed.fd().try_clone_to_owned().expect("a copy");
        assert_eq!(DeviceMemory::of(&fd), None, "a process that may write a region could forge it");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("other", flags).expect("a file");
        write(&fd, &[7; LEN]).expect("room");
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::WRITE).expect("sealed");
        assert_eq!(DeviceMemory::of(&fd), None);
        assert!(Region::open(fd).is_err());
    }
}
