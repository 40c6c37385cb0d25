//! Descriptors that wake an idle thread.

use std::os::fd::{AsFd, AsRawFd};

use super::Cx;

impl Cx<'_> {
    /// Lets the thread's sleep end when `fd` is readable; the element's task then runs.
    ///
    /// # Errors
    /// When the process has no descriptor left for the duplicate that the engine keeps.
    pub fn watch(&mut self, fd: impl AsFd) -> std::io::Result<()> {
        let fd = fd.as_fd();
        self.host.watch(fd.as_raw_fd(), Some(fd.try_clone_to_owned()?));
        Ok(())
    }

    /// Ends [`Cx::watch`]; to be called before the element closes the descriptor.
    pub fn unwatch(&mut self, fd: impl AsFd) {
        self.host.watch(fd.as_fd().as_raw_fd(), None);
    }
}
