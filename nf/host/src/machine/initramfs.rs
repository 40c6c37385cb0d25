//! What a machine boots from: the image's files, then the function's program with its libraries, at
//! the paths that they have here. The kernel unpacks one archive after the other (cpio in the
//! format "newc"; Documentation/driver-api/early-userspace/buffer-format.rst of Linux).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

use super::Machine;
use crate::error::HostError;
use crate::sandbox::Grants;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// Archives begin at multiples of this.
const ALIGN: usize = 4;

/// The file that a machine boots from.
pub(super) fn file(machine: &Machine, grants: &Grants) -> Result<OwnedFd, HostError> {
    let mut image = super::open(&machine.initramfs())?;
    let fd = memfd_create("thruway-initramfs", MemfdFlags::CLOEXEC)
        .map_err(|error| HostError::system("making a machine's initramfs", error))?;
    let mut file = File::from(fd);
    let mut write = || -> io::Result<()> {
        let len = io::copy(&mut image, &mut file)?;
        let padding = len.next_multiple_of(ALIGN as u64) - len;
        file.write_all(&[0; ALIGN][..padding as usize])?;
        let mut archive = Archive { file: io::BufWriter::new(&mut file), dirs: Vec::new() };
        for grant in grants.files.iter().filter(|grant| !grant.directory) {
            archive.add(&grant.path)?;
        }
        archive.entry(Path::new("TRAILER!!!"), 0, &[])?;
        archive.file.flush()
    };
    write().map_err(|error| HostError::system("writing a machine's initramfs", error))?;
    Ok(file.into())
}

struct Archive<W: Write> {
    file: W,
    /// Those that are there.
    dirs: Vec<PathBuf>,
}

impl<W: Write> Archive<W> {
    /// A file of this host, with the directories above it.
    fn add(&mut self, path: &Path) -> io::Result<()> {
        let place = path.strip_prefix("/").unwrap_or(path);
        let mut above: Vec<&Path> = place.ancestors().skip(1).collect();
        above.reverse();
        for dir in above.into_iter().filter(|dir| !dir.as_os_str().is_empty()) {
            if !self.dirs.iter().any(|one| one == dir) {
                self.entry(dir, DIRECTORY, &[])?;
                self.dirs.push(dir.into());
            }
        }
        self.entry(place, PROGRAM, &std::fs::read(path)?)
    }

    fn entry(&mut self, name: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        let name = name.as_os_str().as_bytes();
        let len = u32::try_from(content.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // Inode, mode, user, group, links, time, length, two devices, length of the name, checksum.
        let name_len = name.len() as u32 + 1;
        let fields = [0, mode, 0, 0, 1, 0, len, 0, 0, 0, 0, name_len, 0];
        let mut head = b"070701".to_vec();
        for field in fields {
            write!(head, "{field:08x}")?;
        }
        head.extend_from_slice(name);
        head.push(0);
        head.resize(head.len().next_multiple_of(ALIGN), 0);
        self.file.write_all(&head)?;
        self.file.write_all(content)?;
        let padding = content.len().next_multiple_of(ALIGN) - content.len();
        self.file.write_all(&[0; ALIGN][..padding])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_a_file_behind_its_directories() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x");
        std::fs::write(&path, b"hello").expect("a file");
        let mut archive = Archive { file: Vec::new(), dirs: Vec::new() };
        archive.add(&path).expect("it is read");
        let text = String::from_utf8_lossy(&archive.file).into_owned();
        let place = path.strip_prefix("/").expect("absolute").to_str().expect("plain");
        let (first, file) = (text.find("070701"), text.find(place));
        assert_eq!(first, Some(0));
        assert!(file.is_some() && text.ends_with("hello\0\0\0"), "{text:?}");
        assert_eq!(text.len() % ALIGN, 0);
        let depth = Path::new(place).components().count();
        assert_eq!(text.matches("070701").count(), depth);
    }
}
