//! Files of a chain's directory, as if another user could have written them.
//!
//! Directories have mode 0700 and files 0600. One that belongs to another user, or that others may
//! write to, is refused and left as it is.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::private::open_to_others;

/// Longest file that is read, bytes: a record with a configuration in it.
const READ_MAX: u64 = 64 << 20;

/// Makes a directory for this user only, where it is missing.
///
/// # Errors
/// It cannot be made, or another user could change what is in it.
pub(super) fn private_dir(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at(path, &error)),
        _ => {}
    }
    let found = path.symlink_metadata().map_err(|error| at(path, &error))?;
    let problem = if found.is_dir() { open_to_others(&found) } else { Some("it is no directory") };
    problem.map_or(Ok(()), |problem| Err(refused(path, problem)))
}

fn refused(path: &Path, problem: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, format!("{}: {problem}", path.display()))
}

/// The error with the file's name.
fn at(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // Neither a link nor a pipe makes the open wait or go elsewhere.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}

/// Opens a file that only this user can have written.
fn open(path: &Path, options: &OpenOptions) -> Result<File> {
    let file = options.open(path).map_err(|error| at(path, &error))?;
    let found = file.metadata().map_err(|error| at(path, &error))?;
    let problem = if !found.is_file() {
        Some("it is no plain file")
    } else {
        open_to_others(&found).or((found.nlink() > 1).then_some("it has a second name"))
    };
    problem.map_or(Ok(file), |problem| Err(refused(path, problem)))
}

/// Makes an empty file where there is none.
///
/// # Errors
/// The file system refuses, or another user could have written the file that is there.
pub(super) fn touch(path: &Path) -> Result<()> {
    open(path, options().write(true).create(true)).map(drop)
}

/// What a file holds.
///
/// # Errors
/// It cannot be read, is longer than 64 MiB, or another user could have written it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, options().read(true))?.take(READ_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > READ_MAX {
        return Err(Error::other(format!("{}: it is longer than 64 MiB", path.display())));
    }
    Ok(bytes)
}

/// Replaces a file: whoever reads it, after a crash at any moment, finds the old or the new one.
///
/// # Errors
/// The file system refuses; the old file is as it was.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let fresh = path.with_extension("new");
    // What a crash left of an earlier one.
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&fresh, &error)),
        _ => {}
    }
    let written = options().write(true).create_new(true).open(&fresh).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    });
    written.map_err(|error| at(path, &error))
}

/// The same, but a file that holds these bytes already is left as it is: nothing waits for the
/// disk.
///
/// # Errors
/// As [`replace`].
pub(super) fn replace_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if read(path).is_ok_and(|now| now == bytes) { Ok(()) } else { replace(path, bytes) }
}

/// The output of a data plane: a file that is cut when it is longer than a bound, with the last
/// part of what was cut in a second file.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// Bytes of both files together.
    max: u64,
}

impl Log {
    /// A log at `path`, its older part at `path` with `.1`.
    pub(super) fn new(path: PathBuf, max: u64) -> Log {
        Log { path, max }
    }

    /// The file of the older part.
    pub(super) fn older(&self) -> PathBuf {
        self.path.with_extension("1")
    }

    /// For a process to write at its end.
    ///
    /// # Errors
    /// It cannot be made, or another user could have written it.
    pub(super) fn open(&self) -> Result<File> {
        open(&self.path, options().append(true).create(true))
    }

    /// Bytes that it has.
    pub(super) fn len(&self) -> u64 {
        self.path.symlink_metadata().map_or(0, |found| found.len())
    }

    /// Cuts it where it is longer than half of the bound. Lines that are written meanwhile may be
    /// lost.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn cut(&self) -> Result<()> {
        let half = self.max / 2;
        if self.len() <= half {
            return Ok(());
        }
        let mut file = open(&self.path, options().read(true).write(true))?;
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(end.saturating_sub(half)))?;
        let mut last = Vec::new();
        (&mut file).take(half).read_to_end(&mut last)?;
        replace(&self.older(), &last)?;
        file.set_len(0)
    }

    /// What was written from byte `start` on, at most its last `max` bytes.
    pub(super) fn since(&self, start: u64, max: u64) -> String {
        let read = open(&self.path, options().read(true)).and_then(|mut file| {
            let end = file.seek(SeekFrom::End(0))?;
            // It may have been cut.
            let start = if start > end { 0 } else { start };
            file.seek(SeekFrom::Start(start.max(end.saturating_sub(max))))?;
            let mut bytes = Vec::new();
            file.take(max).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        String::from_utf8_lossy(&read.unwrap_or_default()).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn dir() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    #[test]
    fn what_others_could_have_written_is_refused() {
        let dir = dir();
        let path = |name: &str| dir.path().join(name);
        private_dir(&path("good")).expect("a new one");
        private_dir(&path("good")).expect("the same again");
        let mode = |name: &str, mode| {
            let rights = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path(name), rights).expect("it is ours");
        };
        mode("good", 0o770);
        let refused = private_dir(&path("good")).expect_err("open to a group");
        assert!(refused.to_string().contains("chmod 700"), "{refused}");
        std::os::unix::fs::symlink("/tmp", path("link")).expect("a link");
        assert!(private_dir(&path("link")).is_err());

        replace(&path("file"), b"text").expect("room");
        assert_eq!(read(&path("file")).expect("ours"), b"text");
        mode("file", 0o604);
        assert!(read(&path("file")).expect_err("open").to_string().contains("chmod 600"));
        mode("file", 0o600);
        std::fs::hard_link(path("file"), path("second")).expect("a name");
        assert!(read(&path("file")).expect_err("two names").to_string().contains("second name"));
        std::os::unix::fs::symlink(path("second"), path("to")).expect("a link");
        assert!(read(&path("to")).is_err());
        // A link in the place of the new file is replaced, never written through.
        std::os::unix::fs::symlink("/nonexistent/x", path("other.new")).expect("a link");
        replace(&path("other"), b"text").expect("it takes the link away");
        assert_eq!(read(&path("other")).expect("ours"), b"text");
    }

    #[test]
    fn a_log_has_a_bound_and_keeps_what_came_last() {
        let dir = dir();
        let log = Log::new(dir.path().join("log"), 2000);
        let mut file = log.open().expect("room");
        for number in 0..1000 {
            writeln!(file, "line {number}").expect("room");
        }
        let mark = log.len();
        log.cut().expect("room");
        assert!(log.len() + log.older().metadata().expect("made").len() <= 2000);
        let older = std::fs::read_to_string(log.older()).expect("text");
        assert!(older.ends_with("line 999\n") && older.len() == 1000, "{older}");
        // Who has it open goes on at its end.
        writeln!(file, "next").expect("room");
        assert_eq!(log.since(0, 100), "next");
        assert_eq!(log.since(mark, 100), "next");
        assert_eq!(log.since(0, 3), "xt");
    }
}
