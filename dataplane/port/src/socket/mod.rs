//! Sockets of the host's own protocols: TCP, UDP, Unix, raw IP. Nothing here ever waits but
//! [`Connection::connect`], for a time that the caller bounds.

mod address;
mod connection;
mod datagrams;
mod file;
mod listener;
mod open;
#[cfg(test)]
mod tests;

use std::io;

use rustix::io::Errno;

pub use address::{Address, SocketError, UNIX_NAME_MAX};
pub use connection::Connection;
pub use datagrams::{Datagram, Datagrams, Peer};
pub use file::Credentials;
pub(crate) use file::{is_stale, turn};
pub use listener::Listener;
pub use open::SocketOptions;

/// What a call came to that might have had to wait: then `None`.
fn unless_blocked<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
