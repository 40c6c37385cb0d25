//! What only this user can have written, or only this user and root can change.

use std::fs::{DirBuilder, Metadata};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use rustix::process::geteuid;

/// Why another user could read or write a file or directory, if one could; and what to do.
pub(crate) fn open_to_others(found: &Metadata) -> Option<&'static str> {
    if found.uid() != geteuid().as_raw() {
        Some("it belongs to another user")
    } else if found.mode() & 0o077 == 0 {
        None
    } else if found.is_dir() {
        Some("it is open to other users; chmod 700 it")
    } else {
        Some("it is open to other users; chmod 600 it")
    }
}

/// Why a user besides this one and root could change a file, or what is in a directory; and what to
/// do. What is in a sticky directory can be renamed only by its owner.
pub(crate) fn changeable_by_others(found: &Metadata) -> Option<&'static str> {
    let owner = found.uid();
    let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
    if owner != 0 && owner != geteuid().as_raw() {
        Some("it belongs to another user")
    } else if found.mode() & 0o022 != 0 && !sticky {
        Some("its mode lets others write; chmod go-w it")
    } else {
        None
    }
}

/// Makes a directory for this user only, where it is missing.
///
/// # Errors
/// It cannot be made, or another user could change what is in it.
pub(crate) fn private_dir(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at(path, &error)),
        _ => {}
    }
    let found = path.symlink_metadata().map_err(|error| at(path, &error))?;
    let problem = if found.is_dir() { open_to_others(&found) } else { Some("it is no directory") };
    problem.map_or(Ok(()), |problem| Err(refused(path, problem)))
}

/// A refusal of a file that others could have changed.
pub(crate) fn refused(path: &Path, problem: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, format!("{}: {problem}", path.display()))
}

/// The error with the file's name.
pub(crate) fn at(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", path.display()))
}
