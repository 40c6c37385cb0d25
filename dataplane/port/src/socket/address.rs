//! Addresses of sockets, and what may go wrong with one.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix};

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

    pub(super) fn family(&self) -> AddressFamily {
        match self {
            Address::Inet(_) => AddressFamily::INET,
            Address::Unix(_) => AddressFamily::UNIX,
        }
    }

    pub(super) fn to_kernel(&self) -> Result<SocketAddrAny, Errno> {
        Ok(match self {
            Address::Inet(address) => (*address).into(),
            Address::Unix(name) => match name.split_first() {
                Some((0, name)) => SocketAddrUnix::new_abstract_name(name)?.into(),
                _ => SocketAddrUnix::new(name.as_slice())?.into(),
            },
        })
    }

    /// The address that the kernel gave; `None` of a socket without a name.
    pub(super) fn of_kernel(address: SocketAddrAny) -> Option<Address> {
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
    pub(super) fn new(address: &Address, step: &'static str, errno: Errno) -> SocketError {
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
