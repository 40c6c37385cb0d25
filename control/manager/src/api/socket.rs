//! The socket: for this user and root alone.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use crate::private::open_to_others;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another manager listens there.
    #[error("{}: a manager listens there already; end it, or name another --socket", .0.display())]
    Live(PathBuf),
    /// There is another file of that name.
    #[error("{} is no socket, and stays; name another --socket", .0.display())]
    NotASocket(PathBuf),
    /// Others could reach or replace the socket.
    #[error("directory {}: {why}; use one that is this user's alone (mode 0700)", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system refused.
    #[error("{}: {error}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

/// Where the socket is if nobody says otherwise: `manager/api.sock` in a run directory.
pub fn default_path(run_directory: &Path) -> PathBuf {
    run_directory.join("manager").join("api.sock")
}

/// A socket that listens; its file goes with it.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Held for as long as the socket is this process's.
    _lock: File,
}

impl Listener {
    /// Listens. The directory is made where it is missing; a socket at which nobody listens is
    /// replaced. Called within a runtime.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn bind(path: &Path) -> Result<Listener, SocketError> {
        let system = |error| SocketError::System { path: path.to_owned(), error };
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        private(dir)?;
        let lock = lock(path)?;
        remove_stale(path)?;
        let listener = StdListener::bind(path).map_err(system)?;
        // Until here the directory keeps others out.
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let listener = UnixListener::from_std(listener).map_err(system)?;
        Ok(Listener { listener, path: path.to_owned(), _lock: lock })
    }

    /// The socket.
    pub(super) fn socket(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A file that stays is found stale by the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Makes the directory, and refuses one that others may enter.
fn private(dir: &Path) -> Result<(), SocketError> {
    let path = dir.to_owned();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    let found = made.and_then(|()| std::fs::metadata(dir));
    let found = found.map_err(|error| SocketError::System { path: path.clone(), error })?;
    open_to_others(&found).map_or(Ok(()), |why| Err(SocketError::Directory { path, why }))
}

/// Two starts at a time cannot both take the socket for stale.
fn lock(path: &Path) -> Result<File, SocketError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&name);
    let system = |error| SocketError::System { path: name.clone(), error };
    let file = file.map_err(system)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SocketError::Live(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(system(error)),
    }
}

/// Removes a socket at which nobody listens.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let system = |error| SocketError::System { path: path.to_owned(), error };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match StdStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(system)
        }
        Err(error) => Err(system(error)),
        Ok(_) => Err(SocketError::Live(path.to_owned())),
    }
}
