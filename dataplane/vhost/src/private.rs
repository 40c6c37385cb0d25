//! A socket that only the receiver of its descriptor can connect to.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};
use thruway_sync::atomic::{AtomicU64, Ordering};

/// A directory that nobody else may look into; it goes with this value.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left is an empty directory of this user.
        let _ = std::fs::remove_file(self.0.join("socket"));
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Directory {
    fn new() -> io::Result<Directory> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("thruway-vhost-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Directory(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A listening socket without a name, and a descriptor of it. The owner of that descriptor connects
/// to its name in `/proc/self/fd`: QEMU takes a socket that is connected already for one that
/// passes no descriptors.
///
/// # Errors
/// What the system refuses.
pub fn private_listener() -> io::Result<(UnixListener, OwnedFd)> {
    let directory = Directory::new()?;
    let path = directory.0.join("socket");
    let listener = UnixListener::bind(&path)?;
    // Any process that reaches it may connect: none reaches it by name.
    std::fs::set_permissions(&path, Permissions::from_mode(0o666))?;
    let handle = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    Ok((listener, handle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_has_the_descriptor_connects() {
        let (listener, handle) = private_listener().expect("a socket");
        let stream = UnixStream::connect(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        stream.expect("it is let in");
        listener.accept().expect("a connection");
        let name = listener.local_addr().expect("a name");
        let directory = name.as_pathname().and_then(|path| path.parent()).expect("a path");
        assert!(!directory.exists());
    }
}
