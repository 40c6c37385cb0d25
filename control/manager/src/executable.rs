//! Executables of functions: whether one is there, is the declared one, and is safe from others.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::digest::{Context, SHA256};
use rustix::fs::OFlags;

use crate::access::{Sha256, hex};
use crate::private::changeable_by_others;

/// Longest executable, in bytes.
pub const EXECUTABLE_LEN_MAX: u64 = 256 << 20;

/// Reason of a fault: it is another executable than the declared one.
pub const HASH_DIFFERS: &str = "HashDiffers";

/// Reason of a fault: there is no room for a copy.
pub const DISK_FULL: &str = "DiskFull";

/// Bytes that are read at a time.
const CHUNK_LEN: usize = 128 << 10;

/// A file that changed within this time before it was read may change again with the same stamp:
/// clocks of file systems tick some 250 times a second.
pub const STAMP_AGE_MIN: Duration = Duration::from_secs(2);

/// Why an executable is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Whether there is an executable at all.
    pub is_present: bool,
    /// Why, one word in `CamelCase`: `Missing`.
    pub reason: &'static str,
    /// Why, and what to do.
    pub message: String,
}

/// Tells a file's content from what it was before: no content changes without its `ctime`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Stamp {
        Stamp {
            device: found.dev(),
            inode: found.ino(),
            len: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Whether a later change would have another stamp.
    fn is_settled(&self, now: SystemTime) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or(0);
        let changed = UNIX_EPOCH + Duration::from_secs(seconds);
        now.duration_since(changed).is_ok_and(|age| age > STAMP_AGE_MIN)
    }
}

/// An executable that is there, and that others cannot change.
#[derive(Debug)]
pub struct Executable {
    file: File,
    stamp: Stamp,
}

/// Opens an executable.
///
/// # Errors
/// It is not there, cannot be read or run, or others can change it.
pub fn open(path: &Path) -> Result<Executable, Fault> {
    let at = |error: &io::Error| unreadable(path, error);
    let real = path.canonicalize().map_err(|error| at(&error))?;
    if real != path {
        let why = format!("{} is, or lies behind, a link; give {}", path.display(), real.display());
        return Err(fault(true, "Link", why));
    }
    for one in path.ancestors() {
        let found = one.symlink_metadata().map_err(|error| at(&error))?;
        if let Some(why) = changeable_by_others(&found) {
            let why = format!("others can change {}: {why}", one.display());
            return Err(fault(true, "OpenToOthers", why));
        }
    }
    // Of a pipe that somebody put there meanwhile, the opening waits for no writer.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| at(&error))?;
    let found = file.metadata().map_err(|error| at(&error))?;
    if !found.is_file() {
        return Err(fault(false, "NotAFile", format!("{} is no regular file", path.display())));
    }
    if found.mode() & 0o111 == 0 {
        let why = format!("{0} is not executable; chmod +x {0}", path.display());
        return Err(fault(false, "NotExecutable", why));
    }
    Ok(Executable { file, stamp: Stamp::of(&found) })
}

impl Executable {
    /// Which content it has.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Reads it all; the hash, and whether the stamp tells this content from any other.
    ///
    /// # Errors
    /// It is too long or cannot be read.
    pub fn hash(self, path: &Path) -> Result<(Sha256, bool), Fault> {
        self.copy(path, &mut io::sink())
    }

    /// The same, and writes what it reads.
    ///
    /// # Errors
    /// It is too long or cannot be read, or the copy cannot be written.
    pub fn copy(self, path: &Path, copy: &mut impl Write) -> Result<(Sha256, bool), Fault> {
        let at = |error: &io::Error| unreadable(path, error);
        if self.stamp.len > EXECUTABLE_LEN_MAX {
            return Err(too_long(path));
        }
        let (mut context, mut chunk) = (Context::new(&SHA256), vec![0; CHUNK_LEN]);
        // It may grow meanwhile.
        let mut file = (&self.file).take(EXECUTABLE_LEN_MAX + 1);
        loop {
            match file.read(&mut chunk).map_err(|error| at(&error))? {
                0 => break,
                len => {
                    context.update(&chunk[..len]);
                    copy.write_all(&chunk[..len]).map_err(|error| not_kept(path, &error))?;
                }
            }
        }
        if file.limit() == 0 {
            return Err(too_long(path));
        }
        let mut hash = Sha256::default();
        hash.copy_from_slice(context.finish().as_ref());
        let after = Stamp::of(&self.file.metadata().map_err(|error| at(&error))?);
        Ok((hash, after == self.stamp && after.is_settled(SystemTime::now())))
    }
}

pub fn fault(is_present: bool, reason: &'static str, message: String) -> Fault {
    Fault { is_present, reason, message }
}

/// Why an executable is not the declared one, if it is not.
///
/// # Errors
/// It has another hash than `declared`.
pub fn compare(path: &Path, found: &Sha256, declared: &str) -> Result<(), Fault> {
    let found = hex(found);
    if found == declared {
        return Ok(());
    }
    let message = format!("{} has SHA-256 {found}, not {declared}", path.display());
    Err(fault(true, HASH_DIFFERS, message))
}

/// Why no copy of it is kept.
pub fn not_kept(path: &Path, error: &io::Error) -> Fault {
    let what = format!("no copy of {} can be kept: {error}", path.display());
    let reason = match error.kind() {
        io::ErrorKind::StorageFull => DISK_FULL,
        _ => "NotKept",
    };
    fault(true, reason, what)
}

fn too_long(path: &Path) -> Fault {
    let why = format!("{} is longer than {EXECUTABLE_LEN_MAX} bytes", path.display());
    fault(true, "TooLong", why)
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    let reason = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "Missing",
        _ => "Unreadable",
    };
    fault(false, reason, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use rustix::fs::FileType;
    use tempfile::TempDir;

    use super::*;
    use crate::access::sha256;

    fn executable(content: &[u8]) -> (TempDir, PathBuf) {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().canonicalize().expect("there").join("ids");
        fs::write(&path, content).expect("written");
        mode(&path, 0o755);
        (dir, path)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
    }

    fn refused(path: &Path) -> (bool, &'static str) {
        let fault = open(path).and_then(|file| file.hash(path)).expect_err("refused");
        (fault.is_present, fault.reason)
    }

    #[test]
    fn the_hash_is_of_the_whole_file() {
        let content = vec![7; CHUNK_LEN * 2 + 3];
        let (_dir, path) = executable(&content);
        let file = open(&path).expect("there");
        assert_eq!(file.hash(&path).expect("read"), (sha256(&content), false), "it is too new");
    }

    #[test]
    fn a_stamp_tells_only_what_is_older_than_the_clock() {
        let (_dir, path) = executable(b"x");
        let stamp = open(&path).expect("there").stamp().clone();
        let now = SystemTime::now();
        assert!(!stamp.is_settled(now));
        assert!(stamp.is_settled(now + STAMP_AGE_MIN * 2));
        fs::write(&path, b"longer").expect("written");
        assert_ne!(*open(&path).expect("there").stamp(), stamp);
    }

    #[test]
    fn what_is_no_executable_is_refused() {
        let (dir, path) = executable(b"x");
        assert_eq!(refused(&dir.path().join("none")), (false, "Missing"));
        assert_eq!(refused(&path.join("below")), (false, "Missing"));
        assert_eq!(refused(dir.path()), (false, "NotAFile"));
        let (pipe, mode_bits) = (dir.path().join("pipe"), rustix::fs::Mode::from(0o755));
        let made = rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode_bits, 0);
        made.expect("a pipe");
        assert_eq!(refused(&pipe), (false, "NotAFile"));
        mode(&path, 0o644);
        assert_eq!(refused(&path), (false, "NotExecutable"));
        mode(&path, 0o755);
        let long = OpenOptions::new().write(true).open(&path).expect("open");
        long.set_len(EXECUTABLE_LEN_MAX + 1).expect("a file with a hole");
        assert_eq!(refused(&path), (true, "TooLong"));
    }

    #[test]
    fn what_others_can_change_is_refused() {
        let (dir, path) = executable(b"x");
        for open_to_others in [0o775, 0o757] {
            mode(&path, open_to_others);
            assert_eq!(refused(&path), (true, "OpenToOthers"));
        }
        mode(&path, 0o755);
        mode(dir.path(), 0o777);
        assert_eq!(refused(&path), (true, "OpenToOthers"));
        // Nobody else can rename what is in a sticky directory, as /tmp is one.
        mode(dir.path(), 0o1777);
        assert!(open(&path).is_ok());
        let link = dir.path().join("link");
        symlink(&path, &link).expect("a link");
        assert_eq!(refused(&link), (true, "Link"));
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let (dir, path) = executable(b"x");
        let stranger = Some(rustix::fs::Uid::from_raw(54_321));
        if rustix::fs::chown(&path, stranger, None).is_err() {
            assert!(std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_none(), "needs root");
            eprintln!("SKIPPED: needs root to give a file away");
            return;
        }
        assert_eq!(refused(&path), (true, "OpenToOthers"));
        let root = Some(rustix::process::geteuid());
        rustix::fs::chown(&path, root, None).expect("taken back");
        assert!(open(&path).is_ok());
        // Its owner could put another file in the place of this one, sticky or not.
        mode(dir.path(), 0o1755);
        rustix::fs::chown(dir.path(), stranger, None).expect("given away");
        assert_eq!(refused(&path), (true, "OpenToOthers"));
    }
}
