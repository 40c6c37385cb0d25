//! Sockets for whole messages: UDP, Unix datagrams, raw IP.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    Protocol, RawProtocol, RecvFlags, SendFlags, SocketAddrAny, SocketType, getsockname, ipproto,
    recvfrom, sendto, sockopt,
};

use super::address::{Address, SocketError};
use super::file::{BoundFile, bind_to};
use super::open::{SocketOptions, open};
use super::unless_blocked;
use crate::system;

/// A socket for datagrams. The file of a Unix socket goes with it.
#[derive(Debug)]
pub struct Datagrams {
    fd: OwnedFd,
    _file: BoundFile,
    /// Of a raw socket: holds the port, so that the host does not answer for it.
    _claim: Option<OwnedFd>,
}

/// Where a datagram came from or goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer(SocketAddrAny);

/// A received datagram.
#[derive(Debug)]
pub struct Datagram {
    /// Bytes of it in the buffer.
    pub len: usize,
    /// Bytes that it had.
    pub whole_len: usize,
    /// Where it came from, unless that has no name.
    pub peer: Option<Peer>,
}

impl Peer {
    /// Of an address.
    ///
    /// # Errors
    /// A Unix name that is too long.
    pub fn of(address: &Address) -> io::Result<Peer> {
        Ok(Peer(address.to_kernel()?))
    }

    /// A host and port.
    pub fn inet(address: Ipv4Addr, port: u16) -> Peer {
        Peer(SocketAddrV4::new(address, port).into())
    }

    /// Its address, unless it has no name.
    pub fn address(&self) -> Option<Address> {
        Address::of_kernel(self.0.clone())
    }
}

impl Datagrams {
    /// A UDP or Unix socket of the family of `remote`, bound to `local` if that is given.
    ///
    /// # Errors
    /// The address is used, or not this host's, or the process may not.
    pub fn open(
        remote: &Address,
        local: Option<&Address>,
        options: &SocketOptions,
    ) -> Result<Datagrams, SocketError> {
        let protocol = matches!(remote, Address::Inet(_)).then_some(ipproto::UDP);
        let fd = open(remote, SocketType::DGRAM, protocol, options)?;
        let file = local.map_or(Ok(BoundFile::NONE), |local| bind_to(&fd, local))?;
        Ok(Datagrams { fd, _file: file, _claim: None })
    }

    /// A raw IPv4 socket: what this host receives of an IP protocol, and packets with IP headers of
    /// their own. With `port`, of TCP and UDP, that port is taken, so that no program gets it.
    ///
    /// # Errors
    /// The process may not (CAP_NET_RAW), or the port is used.
    pub fn raw(protocol: u8, port: Option<u16>) -> Result<Datagrams, SocketError> {
        let number = RawProtocol::new(u32::from(protocol).max(1));
        let options = SocketOptions::default();
        let raw = number.map(Protocol::from_raw);
        let any = Address::ANY;
        let fd = open(&any, SocketType::RAW, raw, &options)?;
        let error = |step, source: io::Error| SocketError {
            address: format!("IP protocol {protocol}"),
            step,
            source,
            remedy: "",
        };
        system::set_option(&fd, libc::IPPROTO_IP, libc::IP_HDRINCL, &1i32)
            .map_err(|source| error("cannot set IP_HDRINCL", source))?;
        sockopt::set_socket_broadcast(&fd, true)
            .map_err(|errno| error("cannot set SO_BROADCAST", errno.into()))?;
        let claim = port.map(|port| claim(protocol, port)).transpose()?.flatten();
        Ok(Datagrams { fd, _file: BoundFile::NONE, _claim: claim })
    }

    /// Its own address.
    pub fn address(&self) -> Option<Address> {
        getsockname(&self.fd).ok().and_then(Address::of_kernel)
    }

    /// Receives one datagram, cut to the buffer; `None` when none has come.
    ///
    /// # Errors
    /// What the kernel said. A datagram sent before may have met an error; the next call may work.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
        let received = unless_blocked(recvfrom(&self.fd, buffer, RecvFlags::TRUNC))?;
        let peer_of = |peer: SocketAddrAny| Address::of_kernel(peer.clone()).map(|_| Peer(peer));
        Ok(received.map(|(len, whole_len, peer)| Datagram {
            len,
            whole_len,
            peer: peer.and_then(peer_of),
        }))
    }

    /// Sends one datagram; false: not now, try again.
    ///
    /// # Errors
    /// It is too long, or nobody is there to take it.
    pub fn send(&self, bytes: &[u8], to: &Peer) -> io::Result<bool> {
        let sent = sendto(&self.fd, bytes, SendFlags::NOSIGNAL, &to.0);
        Ok(unless_blocked(sent)?.is_some())
    }
}

/// A socket that keeps others from a port and receives next to nothing.
fn claim(protocol: u8, port: u16) -> Result<Option<OwnedFd>, SocketError> {
    let (kind, protocol) = match i32::from(protocol) {
        libc::IPPROTO_TCP => (SocketType::STREAM, ipproto::TCP),
        libc::IPPROTO_UDP => (SocketType::DGRAM, ipproto::UDP),
        _ => return Ok(None),
    };
    let address = Address::Inet(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
    let options = SocketOptions { receive_buffer: Some(0), ..SocketOptions::default() };
    let fd = open(&address, kind, Some(protocol), &options)?;
    bind_to(&fd, &address)?;
    Ok(Some(fd))
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
