//! Sockets as they are opened: with the user's options, and an address.

use std::os::fd::OwnedFd;

use rustix::net::{Protocol, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

use super::address::{Address, SocketError};

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

/// A socket of the address's family with these options, which never waits.
pub(super) fn open(
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

/// Has the kernel give a socket its address.
pub(super) fn bind_to_kernel(fd: &OwnedFd, address: &Address) -> Result<(), SocketError> {
    let bound = address.to_kernel().and_then(|kernel| bind(fd, &kernel));
    bound.map_err(|errno| SocketError::new(address, "cannot bind", errno))
}
