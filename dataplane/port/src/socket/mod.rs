//! Sockets of the host's own protocols: TCP, UDP, Unix, raw IP. Nothing here ever waits but
//! [`Connection::connect`], for a time that the caller bounds.

mod connection;
mod datagrams;
mod file;
mod listener;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, bind, ipproto,
    socket_with, sockopt,
};

pub use connection::Connection;
pub use datagrams::{Datagram, Datagrams, Peer};
use file::BoundFile;
pub use file::Credentials;
pub(crate) use file::{is_stale, turn};
pub use listener::Listener;

/// Where a socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IPv4 address and a port.
    Inet(SocketAddrV4),
    /// A file; or, if the first byte is zero, a name in Linux's abstract space.
    Unix(Vec<u8>),
}

/// Longest name of a Unix socket, bytes (`sun_path` of unix(7), less the zero at its end).
pub const UNIX_NAME_MAX: usize = 107;

/// What the user may set of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketOptions {
    /// Size of the kernel's buffer for what is sent, bytes; the kernel's choice if `None`.
    pub send_buffer: Option<usize>,
    /// Likewise for what is received.
    pub receive_buffer: Option<usize>,
    /// Whether TCP sends small segments at once.
    pub no_delay: bool,
    /// Rights of a listening Unix socket's file; the umask's if `None`.
    pub mode: Option<u32>,
    /// Its group; the process's if `None`.
    pub group: Option<u32>,
}

/// A socket that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {step}: {source}{remedy}")]
pub struct SocketError {
    /// The address that was meant.
    pub address: String,
    /// What was tried.
    pub step: &'static str,
    /// What the kernel said.
    pub source: io::Error,
    /// What to do about it, after a semicolon; empty where nothing is known.
    pub remedy: &'static str,
}

impl SocketError {
    fn new(address: &Address, step: &'static str, errno: Errno) -> SocketError {
        let remedy = match (errno, address) {
            (Errno::ADDRINUSE, Address::Unix(_)) => {
                "; a process listens there, or it is no socket of this user"
            }
            (Errno::ADDRINUSE, Address::Inet(_)) => "; another socket has that port",
            (Errno::ADDRNOTAVAIL, _) => "; no interface of this host has that address",
            (Errno::CONNREFUSED | Errno::NOENT, _) => "; nobody listens there",
            (Errno::PERM | Errno::ACCESS, Address::Inet(_)) => {
                "; ports below 1,024 want CAP_NET_BIND_SERVICE, raw sockets CAP_NET_RAW"
            }
            _ => "",
        };
        SocketError { address: address.to_string(), step, source: errno.into(), remedy }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(f),
            Address::Unix(name) => match name.split_first() {
                Some((0, name)) => write!(f, "@{}", String::from_utf8_lossy(name)),
                _ => f.write_str(&String::from_utf8_lossy(name)),
            },
        }
    }
}

impl Address {
    /// No address and port in particular.
    pub const ANY: Address = Address::Inet(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

    fn family(&self) -> AddressFamily {
        match self {
            Address::Inet(_) => AddressFamily::INET,
            Address::Unix(_) => AddressFamily::UNIX,
        }
    }

    fn to_kernel(&self) -> Result<SocketAddrAny, Errno> {
        Ok(match self {
            Address::Inet(address) => (*address).into(),
            Address::Unix(name) => match name.split_first() {
                Some((0, name)) => SocketAddrUnix::new_abstract_name(name)?.into(),
                _ => SocketAddrUnix::new(name.as_slice())?.into(),
            },
        })
    }

    /// The address that the kernel gave; `None` of a socket without a name.
    fn of_kernel(address: SocketAddrAny) -> Option<Address> {
        if let Ok(inet) = SocketAddrV4::try_from(address.clone()) {
            return Some(Address::Inet(inet));
        }
        let unix = SocketAddrUnix::try_from(address).ok()?;
        let name = match (unix.path(), unix.abstract_name()) {
            (Some(path), _) => path.to_bytes().to_vec(),
            (None, Some(name)) if !name.is_empty() => [&[0], name].concat(),
            _ => return None,
        };
        Some(Address::Unix(name))
    }
}

/// A socket of the address's family with these options, which never waits.
fn open(
    address: &Address,
    kind: SocketType,
    protocol: Option<Protocol>,
    options: &SocketOptions,
) -> Result<OwnedFd, SocketError> {
    let error = |step, errno| SocketError::new(address, step, errno);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(address.family(), kind, flags, protocol);
    let fd = fd.map_err(|errno| error("cannot open a socket", errno))?;
    if let Some(size) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(&fd, size)
            .map_err(|errno| error("cannot set SNDBUF", errno))?;
    }
    if let Some(size) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(&fd, size)
            .map_err(|errno| error("cannot set RCVBUF", errno))?;
    }
    if protocol == Some(ipproto::TCP) {
        sockopt::set_tcp_nodelay(&fd, options.no_delay)
            .map_err(|errno| error("cannot set NODELAY", errno))?;
    }
    Ok(fd)
}

/// Gives a socket its address.
fn bind_to(fd: &OwnedFd, address: &Address) -> Result<BoundFile, SocketError> {
    bind_to_kernel(fd, address)?;
    Ok(BoundFile::of(address))
}

fn bind_to_kernel(fd: &OwnedFd, address: &Address) -> Result<(), SocketError> {
    let bound = address.to_kernel().and_then(|kernel| bind(fd, &kernel));
    bound.map_err(|errno| SocketError::new(address, "cannot bind", errno))
}

/// What a call came to that might have had to wait: then `None`.
fn unless_blocked<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
