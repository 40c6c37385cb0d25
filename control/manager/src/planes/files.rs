//! Files of a chain's directory, as if another user could have written them.
//!
//! Directories have mode 0700 and files 0600. One that belongs to another user, or that others may
//! write to, is refused and left as it is.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::private::{at, open_to_others, refused};

/// Longest file that is read, bytes: a record with a configuration in it.
const READ_MAX: u64 = 64 << 20;

/// Options of files that only this user may read and write.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // Neither a link nor a pipe makes the open wait or go elsewhere.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}

/// Opens a file that only this user can have written.
///
/// # Errors
/// The file system refuses, or another user could have written it.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<File> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private::private_dir;
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
}
