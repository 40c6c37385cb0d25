//! Listening and connected sockets, TCP or Unix.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// Ports tried where "or the next ones" is meant.
const PORTS_TRIED: u16 = 11;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A TCP port, or one of the next ones if `next`.
    Tcp { port: u16, next: bool, local: bool },
    /// A file.
    Unix(PathBuf),
}

pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Listens; nothing on it ever blocks.
    pub(super) fn bind(place: &Place) -> Result<Listener, String> {
        let listener = match place {
            Place::Tcp { port, next, local } => Listener::Tcp(bind_tcp(*port, *next, *local)?),
            Place::Unix(path) => {
                let bound = UnixListener::bind(path);
                Listener::Unix(bound.map_err(|error| match error.kind() {
                    ErrorKind::AddrInUse => {
                        format!("{}: it is there already; remove it", path.display())
                    }
                    _ => format!("{}: {error}", path.display()),
                })?)
            }
        };
        let set = match &listener {
            Listener::Tcp(listener) => listener.set_nonblocking(true),
            Listener::Unix(listener) => listener.set_nonblocking(true),
        };
        set.map_err(|error| error.to_string())?;
        Ok(listener)
    }

    /// The TCP port.
    pub(super) fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(listener) => Some(listener.local_addr().ok()?.port()),
            Listener::Unix(_) => None,
        }
    }

    /// A connection that waits, and who it is; `None` when there is none.
    pub(super) fn accept(&self) -> std::io::Result<Option<(Stream, String)>> {
        let accepted = match self {
            Listener::Tcp(listener) => listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                Ok((Stream::Tcp(stream), format!(" from {}.{}", peer.ip(), peer.port())))
            }),
            Listener::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok((Stream::Unix(stream), String::new()))
            }),
        };
        match accepted {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn bind_tcp(port: u16, next: bool, local: bool) -> Result<TcpListener, String> {
    let address = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let last = if next { port.saturating_add(PORTS_TRIED - 1) } else { port };
    let mut failure = String::new();
    for port in port..=last {
        match TcpListener::bind((address, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = format!("TCP port {port}: {error}"),
        }
    }
    Err(failure)
}

impl Stream {
    /// What can be read now: `None` when nothing has come, 0 bytes at the end.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
        let read = match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        };
        unless_blocked(read)
    }

    /// Writes what can be written now: `None` when that is nothing.
    pub(super) fn send(&mut self, bytes: &[u8]) -> std::io::Result<Option<usize>> {
        let written = match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        };
        unless_blocked(written)
    }
}

fn unless_blocked(result: std::io::Result<usize>) -> std::io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}
