//! Wake-ups of an idle thread.

use std::os::fd::{AsFd, AsRawFd};

use super::Cx;

impl Cx<'_> {
    /// Wakes the other sleeping threads that pull at this element. An element that threads share
    /// calls this once per batch, after it has made the packets visible to the others.
    #[inline]
    pub fn wake_takers(&mut self) {
        self.host.wake_takers(self.node);
    }

    /// Wakes the thread of this number ([`Env::thread`](crate::Env::thread)), if it sleeps. To be
    /// called once for a batch that was left where a task of that thread looks.
    #[inline]
    pub fn wake(&mut self, thread: usize) {
        self.host.wake(thread);
    }

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
