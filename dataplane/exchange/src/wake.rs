//! How one side ends the other's sleep in `poll()`, so that neither can make the other wait.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair, sockopt,
};

/// Messages that are taken off at once: more than fit into the buffer, so that a Worker that sends
/// without end cannot keep its host at it.
const TAKEN_MAX: usize = 16;

/// Both ends of a wake-up line between a host and a Worker: a pair of sockets.
///
/// It is not an eventfd, of which both sides would have the same open file: either can clear
/// O_NONBLOCK of that, and the other's next read or write then waits for as long as the first likes
/// (F_SETFL, fcntl(2)). Each end of a pair has flags of its own. The host's calls say
/// MSG_DONTWAIT as well, so that they wait for nothing even where they touch the Worker's end.
///
/// The host keeps the Worker's end open: a Worker that closes its own copy does not make the host's
/// end readable for ever.
#[derive(Debug)]
pub struct WakeLine {
    host: OwnedFd,
    worker: OwnedFd,
}

impl WakeLine {
    /// Makes one; neither end waits.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new() -> Result<WakeLine, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (host, worker) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&host, &worker] {
            // The system's least, of a few messages: one is enough to be awake.
            sockopt::set_socket_send_buffer_size(end, 1)?;
        }
        Ok(WakeLine { host, worker })
    }

    /// What the host watches: readable when the Worker, or another thread of the host, wants it
    /// awake.
    pub fn host_end(&self) -> BorrowedFd<'_> {
        self.host.as_fd()
    }

    /// What the Worker gets: it writes eight bytes to wake the host, and reads what woke it.
    pub fn worker_end(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }

    /// The host wakes the Worker.
    pub fn wake_worker(&self) {
        wake(&self.host);
    }

    /// Wakes the thread of the host that watches the line.
    pub fn wake_host(&self) {
        wake(&self.worker);
    }

    /// Takes off what woke the host. What does not end is left, and wakes it again.
    pub fn clear(&self) {
        for _ in 0..TAKEN_MAX {
            let mut count = [0; 8];
            if recv(&self.host, &mut count[..], RecvFlags::DONTWAIT).is_err() {
                return;
            }
        }
    }
}

/// A full buffer is a side that was woken already; no other error keeps it asleep for good.
fn wake(end: &OwnedFd) {
    let _ = send(end, &1_u64.to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec};
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    fn is_readable(end: BorrowedFd<'_>) -> bool {
        let mut ready = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut ready, Some(&now)).unwrap() == 1
    }

    #[test]
    fn both_sides_wake_each_other() {
        let line = WakeLine::new().unwrap();
        assert!(!is_readable(line.host_end()) && !is_readable(line.worker_end()));
        rustix::io::write(line.worker_end(), &1_u64.to_ne_bytes()).unwrap();
        assert!(is_readable(line.host_end()));
        line.clear();
        assert!(!is_readable(line.host_end()));
        line.wake_host();
        assert!(is_readable(line.host_end()));
        line.wake_worker();
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(line.worker_end(), &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 1);
    }

    /// Everything that a Worker can do to its end: no call of the host's waits. (One that did would
    /// never come back: nobody else is here.)
    #[test]
    fn a_worker_cannot_make_its_host_wait() {
        let line = WakeLine::new().unwrap();
        for end in [line.worker_end(), line.host_end()] {
            let flags = fcntl_getfl(end).unwrap();
            fcntl_setfl(end, flags - OFlags::NONBLOCK).unwrap();
        }
        line.clear();
        for _ in 0..10_000 {
            line.wake_host();
            line.wake_worker();
        }
        line.clear();
        assert!(!is_readable(line.host_end()), "what fits is taken off at once");
        rustix::net::shutdown(line.worker_end(), rustix::net::Shutdown::Both).unwrap();
        line.wake_host();
        line.wake_worker();
        line.clear();
    }

    #[test]
    fn a_worker_that_lets_go_of_its_end_does_not_keep_the_host_awake() {
        let line = WakeLine::new().unwrap();
        let workers = line.worker_end().try_clone_to_owned().unwrap();
        drop(workers);
        assert!(!is_readable(line.host_end()));
    }
}
