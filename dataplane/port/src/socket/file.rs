//! The file of a Unix socket: access to it, files of dead processes, and its removal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, UCred, connect, socket_with, sockopt};

use super::address::{Address, SocketError};
use super::open::{SocketOptions, bind_to_kernel};
use crate::system;

/// How long a start waits for another one in the same directory.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// The file of a bound Unix socket; it goes with this value.
#[derive(Debug)]
pub(super) struct BoundFile(Option<(PathBuf, Identity)>);

/// Device and inode: another process may have put its own file in this one's place.
type Identity = (u64, u64);

impl BoundFile {
    pub(super) const NONE: BoundFile = BoundFile(None);

    /// The file that a socket bound here made.
    pub(super) fn of(address: &Address) -> BoundFile {
        let path = path_of(address);
        BoundFile(path.and_then(|path| identity(&path).map(|identity| (path, identity))))
    }

    pub(super) fn remove(&mut self) -> io::Result<()> {
        match self.0.take() {
            Some((path, own)) if identity(&path) == Some(own) => std::fs::remove_file(path),
            _ => Ok(()),
        }
    }
}

impl Drop for BoundFile {
    fn drop(&mut self) {
        // A caller that needs the error closes the socket explicitly.
        let _ = self.remove();
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// The file that a socket bound at an address makes.
fn path_of(address: &Address) -> Option<PathBuf> {
    match address {
        Address::Unix(name) if name.first().is_some_and(|first| *first != 0) => {
            Some(PathBuf::from(std::ffi::OsString::from_vec(name.clone())))
        }
        _ => None,
    }
}

/// Gives a socket its address.
pub(super) fn bind_to(fd: &OwnedFd, address: &Address) -> Result<BoundFile, SocketError> {
    bind_to_kernel(fd, address)?;
    Ok(BoundFile::of(address))
}

/// Binds a stream socket to its address and listens. Of a Unix socket, the file gets its rights
/// before anyone can connect, and the file that a dead process left is replaced: one at which
/// nobody listens. Starts in one directory take turns, so that none takes the other's for dead.
pub(super) fn bind_and_listen(
    fd: &OwnedFd,
    address: &Address,
    options: &SocketOptions,
    backlog: i32,
) -> Result<BoundFile, SocketError> {
    let listen = || {
        rustix::net::listen(fd, backlog)
            .map_err(|errno| SocketError::new(address, "cannot listen", errno))
    };
    let Some(path) = path_of(address) else {
        bind_to_kernel(fd, address)?;
        listen()?;
        return Ok(BoundFile::NONE);
    };
    if let Some(mode) = options.mode {
        // The kernel makes the file with the rights of the socket (less the umask).
        rustix::fs::fchmod(fd, Mode::from_raw_mode(mode))
            .map_err(|errno| SocketError::new(address, "cannot set its mode", errno))?;
    }
    let turn = turn(&path);
    match bind_to_kernel(fd, address) {
        Err(error) if turn.is_some() && is_in_use(&error) && is_stale(&path) => {
            std::fs::remove_file(&path).map_err(|_| {
                SocketError::new(address, "cannot replace a stale socket", Errno::PERM)
            })?;
            bind_to_kernel(fd, address)?;
        }
        bound => bound?,
    }
    let file = BoundFile::of(address);
    open_to(&path, options)
        .map_err(|errno| SocketError::new(address, "cannot set its mode and group", errno))?;
    listen()?;
    Ok(file)
}

/// Gives the file its group and, against the umask, its whole mode.
fn open_to(path: &Path, options: &SocketOptions) -> Result<(), Errno> {
    if let Some(group) = options.group {
        let group = Some(Gid::from_raw(group));
        rustix::fs::chownat(CWD, path, None, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    match options.mode {
        Some(mode) if mode & 0o077 != 0 => {
            rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())
        }
        _ => Ok(()),
    }
}

/// The turn of this process among those that start in a directory; `None` where there is no such
/// lock.
pub(crate) fn turn(path: &Path) -> Option<OwnedFd> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(parent, flags, Mode::empty()).ok()?;
    let begin = Instant::now();
    while rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
        if begin.elapsed() > PATIENCE {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
    Some(dir)
}

fn is_in_use(error: &SocketError) -> bool {
    error.source.raw_os_error() == Some(Errno::ADDRINUSE.raw_os_error())
}

/// Whether a file is a socket of this user at which nobody listens.
pub(crate) fn is_stale(path: &Path) -> bool {
    let Ok(stat) = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let own = stat.st_uid == rustix::process::geteuid().as_raw();
    let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    if !own || !is_socket {
        return false;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let address = rustix::net::SocketAddrUnix::new(path);
    match (probe, address) {
        // A full queue gives EAGAIN: there is a listener.
        (Ok(probe), Ok(address)) => connect(&probe, &address) == Err(Errno::CONNREFUSED),
        _ => false,
    }
}

/// The process at the other end of a Unix socket, as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Its user.
    pub uid: u32,
    /// Its groups.
    pub groups: Vec<u32>,
}

/// The connected peer; `None` if the socket is no Unix socket.
pub(super) fn credentials(fd: &impl AsFd) -> Option<Credentials> {
    let UCred { uid, gid, .. } = sockopt::socket_peercred(fd).ok()?;
    let mut groups = system::peer_groups(fd).unwrap_or_default();
    groups.push(gid.as_raw());
    Some(Credentials { uid: uid.as_raw(), groups })
}
