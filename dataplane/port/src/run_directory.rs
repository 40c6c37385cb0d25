//! The directory in which running instances are found: control sockets and tokens, for this user
//! only.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::socket;

/// Names it, where the default does not do.
pub const VARIABLE: &str = "THRUWAY_RUN_DIR";

/// Where it is: `$THRUWAY_RUN_DIR`; else `/run/thruway` for root, `$XDG_RUNTIME_DIR/thruway` for
/// other users, and `/tmp/thruway-UID` where there is no such variable.
pub fn path() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = named(VARIABLE) {
        return path;
    }
    let user = geteuid();
    match named("XDG_RUNTIME_DIR") {
        _ if user.is_root() => PathBuf::from("/run/thruway"),
        Some(path) => path.join("thruway"),
        None => PathBuf::from(format!("/tmp/thruway-{}", user.as_raw())),
    }
}

/// The directory, made where it is missing, with rights for this user only.
///
/// # Errors
/// It cannot be made, or others could change what is in it.
pub fn open() -> io::Result<PathBuf> {
    let path = path();
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check(&path)?;
    Ok(path)
}

/// Refuses a directory that is another user's or open to others.
fn check(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let why = if !found.is_dir() {
        "is no directory"
    } else if found.uid() != geteuid().as_raw() {
        "belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "is open to other users; chmod 700 it"
    } else {
        return Ok(());
    };
    Err(io::Error::other(format!("it {why}")))
}

/// A file of the directory.
pub fn file(name: &str) -> PathBuf {
    path().join(name)
}

/// Name of the file with the token of a TCP port.
pub fn token_name(port: u16) -> String {
    format!("tcp-{port}.token")
}

/// A file with a secret, for this user only; it goes with this value.
#[derive(Debug)]
pub struct SecretFile(PathBuf);

impl SecretFile {
    /// Makes it in the run directory; what a run before left under that name is replaced.
    ///
    /// # Errors
    /// There is no run directory, or no room.
    pub fn create(name: &str, text: &str) -> io::Result<SecretFile> {
        use std::io::Write as _;
        let path = open()?.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let secret = SecretFile(path);
        file.write_all(text.as_bytes())?;
        Ok(secret)
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        // It is worth nothing any more in any case.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What stands behind a socket of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The socket has a listener.
    Live,
    /// Its process died.
    Stale,
}

/// The sockets of instances (`PID.sock`), by their process's number.
pub fn instances() -> Vec<(u32, PathBuf, Found)> {
    let Ok(entries) = std::fs::read_dir(path()) else { return Vec::new() };
    let sockets = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let pid: u32 = name.to_str()?.strip_suffix(".sock")?.parse().ok()?;
        let found = if socket::is_stale(&entry.path()) { Found::Stale } else { Found::Live };
        Some((pid, entry.path(), found))
    });
    let mut found: Vec<_> = sockets.collect();
    found.sort_unstable_by_key(|(pid, ..)| *pid);
    found
}

/// Removes sockets of dead processes.
pub fn sweep() {
    // A socket that is bound and does not listen yet looks like a dead one.
    let Some(_turn) = socket::turn(&file("any")) else { return };
    for (_, path, found) in instances() {
        if found == Found::Stale {
            // Another start may have done it.
            let _ = std::fs::remove_file(path);
        }
    }
}
