//! The process that waits to take the function's place, and what the one before leaves behind.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use thruway_nf_abi::message::Hello;

use crate::process::Process;
use crate::wiring::Wiring;

/// From the start of a function to that of the process that waits to take its place: the start of
/// the configuration comes first.
pub(super) const AFTER: Duration = Duration::from_millis(20);

/// A process that waits. It has said HELLO and has no answer: it has nothing of what the present
/// one has, and changes no session's scratch.
pub(super) struct Standby {
    pub process: Process,
    /// Its HELLO, and fresh regions for it.
    pub attached: Option<(Hello, Wiring)>,
}

/// What is left of a process that ended. To unmap its regions and to close its descriptors takes a
/// while, in which its successor could work already.
#[derive(Default)]
pub(super) struct Remains {
    pub process: Option<Process>,
    pub wiring: Option<Wiring>,
}

impl Standby {
    /// What to poll: its end, and until it has said HELLO its socket.
    pub fn watched(&self) -> impl Iterator<Item = PollFd<'_>> {
        let socket = self.attached.is_none().then(|| self.process.control());
        let all = socket.into_iter().chain([self.process.pidfd()]);
        all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
    }
}
