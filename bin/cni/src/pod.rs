//! A pod's network namespace.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use rustix::fs::OFlags;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::CniError;
use crate::netlink::RouteSocket;

/// `NSFS_MAGIC` (statfs(2)): the file system of namespaces.
const NAMESPACES: u64 = 0x6e73_6673;

/// An open namespace.
#[derive(Debug)]
pub struct PodNamespace {
    file: File,
}

impl PodNamespace {
    /// Opens the namespace of this file.
    ///
    /// # Errors
    /// There is no such file, or it is another one; it is the host's namespace.
    pub fn open(path: &str) -> Result<PodNamespace, CniError> {
        let refused = |why: &str| CniError::environment("CNI_NETNS", format!("{path}: {why}"));
        // Whatever the file is: opening it waits for nobody.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|error| refused(&error.to_string()))?;
        let system = rustix::fs::fstatfs(&file).map_err(|error| refused(&error.to_string()))?;
        if u64::try_from(system.f_type) != Ok(NAMESPACES) {
            return Err(refused("it is no namespace"));
        }
        let own = std::fs::metadata("/proc/thread-self/ns/net");
        let own = own.map_err(|error| CniError::io("/proc/thread-self/ns/net", error))?;
        let its = file.metadata().map_err(|error| refused(&error.to_string()))?;
        if (own.dev(), own.ino()) == (its.dev(), its.ino()) {
            return Err(refused("it is the host's own namespace; a pod needs one of its own"));
        }
        Ok(PodNamespace { file })
    }

    /// What `work` gives, done by a thread in the namespace.
    ///
    /// # Errors
    /// It is no network namespace, or this process may not enter it; or those of `work`.
    pub fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, CniError> + Send,
    ) -> Result<T, CniError> {
        let enter = || {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| CniError::environment("CNI_NETNS", format!("setns: {error}")))?;
            work()
        };
        let done = std::thread::scope(|scope| scope.spawn(enter).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A socket for its interfaces.
    ///
    /// # Errors
    /// As of [`PodNamespace::within`].
    pub fn socket(&self) -> Result<RouteSocket, CniError> {
        self.within(|| RouteSocket::open().map_err(|error| CniError::io("netlink", error)))
    }
}

impl AsFd for PodNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
