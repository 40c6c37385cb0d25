//! Sockets to which others connect.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{SocketFlags, SocketType, acceptfrom_with, getsockname, ipproto, sockopt};

use super::address::{Address, SocketError};
use super::connection::Connection;
use super::file::{BoundFile, bind_and_listen};
use super::open::{SocketOptions, open};
use super::unless_blocked;

/// Connections that the kernel lets wait.
const BACKLOG: i32 = 128;

/// A listening socket, TCP or Unix. The file of a Unix socket goes with it.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    file: BoundFile,
    options: SocketOptions,
    address: Address,
}

impl Listener {
    /// Listens at an address. A Unix socket's file that a dead process of this user left there is
    /// replaced, a live one's never.
    ///
    /// # Errors
    /// The address is used, or not this host's, or the process may not.
    pub fn bind(address: &Address, options: &SocketOptions) -> Result<Listener, SocketError> {
        let protocol = matches!(address, Address::Inet(_)).then_some(ipproto::TCP);
        let fd = open(address, SocketType::STREAM, protocol, options)?;
        if protocol.is_some() {
            // Connections of a run before may linger, and are no reason to wait.
            sockopt::set_socket_reuseaddr(&fd, true)
                .map_err(|errno| SocketError::new(address, "cannot set SO_REUSEADDR", errno))?;
        }
        let file = bind_and_listen(&fd, address, options, BACKLOG)?;
        let name = getsockname(&fd).ok().and_then(Address::of_kernel);
        let address = name.unwrap_or_else(|| address.clone());
        Ok(Listener { fd, file, options: *options, address })
    }

    /// Where it listens: with the port that the kernel chose, if it was to.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A connection that waits, and where it comes from unless that has no name; `None` when there
    /// is no connection.
    ///
    /// # Errors
    /// What the kernel said: most often that there are no more descriptors.
    pub fn accept(&self) -> io::Result<Option<(Connection, Option<Address>)>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Some((fd, peer)) = unless_blocked(acceptfrom_with(&self.fd, flags))? else {
            return Ok(None);
        };
        if matches!(self.address, Address::Inet(_)) {
            sockopt::set_tcp_nodelay(&fd, self.options.no_delay)?;
        }
        Ok(Some((Connection::of(fd), peer.and_then(Address::of_kernel))))
    }

    /// Closes it and removes its file.
    ///
    /// # Errors
    /// The file could not be removed.
    pub fn close(mut self) -> io::Result<()> {
        self.file.remove()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
