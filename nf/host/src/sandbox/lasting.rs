//! Descriptors that last until a program has its own.

use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// The lowest number of a descriptor that must last until the program's own are in their places.
const LASTING_FIRST: i32 = 10;

/// Moves a descriptor out of the way of those that a program gets.
pub(crate) fn moved_up(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, LASTING_FIRST)
}
