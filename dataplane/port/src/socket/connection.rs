//! Connected sockets, TCP or Unix: streams of bytes.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::net::{
    SendAncillaryBuffer, SendFlags, SocketType, connect, getsockname, ipproto, sendmsg, sockopt,
};

use super::address::{Address, SocketError};
use super::file::{BoundFile, Credentials, bind_to, credentials};
use super::open::{SocketOptions, open};
use super::unless_blocked;

/// A connected socket.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
    /// Of a client that has a name.
    _file: BoundFile,
}

impl Connection {
    pub(super) fn of(fd: OwnedFd) -> Connection {
        Connection { fd, _file: BoundFile::NONE }
    }

    /// Connects to an address, from `local` if that is given; waits `patience` at most.
    ///
    /// # Errors
    /// Nobody listens there, or answers in time.
    pub fn connect(
        address: &Address,
        local: Option<&Address>,
        options: &SocketOptions,
        patience: Duration,
    ) -> Result<Connection, SocketError> {
        let error = |errno| SocketError::new(address, "cannot connect", errno);
        let protocol = matches!(address, Address::Inet(_)).then_some(ipproto::TCP);
        let fd = open(address, SocketType::STREAM, protocol, options)?;
        let file = match local {
            Some(local) => {
                if protocol.is_some() {
                    sockopt::set_socket_reuseaddr(&fd, true).map_err(error)?;
                }
                bind_to(&fd, local)?
            }
            None => BoundFile::NONE,
        };
        match connect(&fd, &address.to_kernel().map_err(error)?) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => finish_connecting(&fd, patience).map_err(error)?,
            Err(errno) => return Err(error(errno)),
        }
        Ok(Connection { fd, _file: file })
    }

    /// Its own address.
    pub fn address(&self) -> Option<Address> {
        getsockname(&self.fd).ok().and_then(Address::of_kernel)
    }

    /// The process at the other end, of a Unix socket: as it was when it connected.
    pub fn credentials(&self) -> Option<Credentials> {
        credentials(&self.fd)
    }

    /// What can be read now: `None` when nothing has come, 0 bytes at the end.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(read(&self.fd, buffer))
    }

    /// Writes what can be written now, from the first piece on: `None` when that is nothing.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let mut nothing = SendAncillaryBuffer::default();
        unless_blocked(sendmsg(&self.fd, pieces, &mut nothing, SendFlags::NOSIGNAL))
    }
}

/// Waits until a connection stands.
fn finish_connecting(fd: &OwnedFd, patience: Duration) -> Result<(), Errno> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&left)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => return sockopt::socket_error(fd)?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
