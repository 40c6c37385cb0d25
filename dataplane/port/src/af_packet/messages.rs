//! Frames out by `sendmmsg`: those that fit no slot of the ring, and all when it is full.

use super::OutFrame;
use super::options;
use super::vnet::VNET_LEN;
use super::whole::Head;
use crate::error::PortError;
use crate::interface::Interface;
use crate::system;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Frames in one system call.
pub const SEND_BATCH: usize = 64;

/// A packet socket that only sends. Before every frame it has a virtio header, which informs the
/// kernel of frames that are to be cut.
pub(super) struct Messages {
    socket: OwnedFd,
    /// Virtio headers of the frames of a batch, with a copy of the frame's headers where they
    /// differ.
    heads: Box<[Head; SEND_BATCH]>,
    is_ethernet: bool,
}

impl Messages {
    pub(super) fn open(interface: &Interface, bypass: bool) -> Result<Messages, PortError> {
        let name = &interface.name;
        let socket = options::send_socket(name, bypass)?;
        options::bind(&socket, interface, 0).map_err(|e| PortError::system(name, "bind", e))?;
        let (heads, is_ethernet) = (Box::new([Head::NONE; SEND_BATCH]), interface.is_ethernet);
        Ok(Messages { socket, heads, is_ethernet })
    }

    /// Sends [`SEND_BATCH`] frames at most: how many of `frames` were sent. One system call.
    ///
    /// # Errors
    /// Why the first was not sent.
    pub(super) fn send(&mut self, frames: &[OutFrame<'_>]) -> io::Result<usize> {
        let mut parts = [[NO_BYTES; 2]; SEND_BATCH];
        for ((parts, head), frame) in parts.iter_mut().zip(self.heads.iter_mut()).zip(frames) {
            let bytes = frame.bytes;
            let whole = match frame.segments {
                0 | 1 => None,
                segments => head.set(bytes, segments, self.is_ethernet),
            };
            *parts = match whole {
                None => [part(&PLAIN), part(bytes)],
                Some(payload) => [part(head.bytes()), part(&bytes[payload..])],
            };
        }
        // JUSTIFICATION: `sendmmsg` takes C structures, which have private padding.
        // SAFETY: all-zero bytes are a valid `mmsghdr`: integers and null pointers.
        let mut messages: [libc::mmsghdr; SEND_BATCH] = unsafe { std::mem::zeroed() };
        for (message, parts) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = parts.as_mut_ptr();
            // A C library's own type: `size_t` or `int`.
            message.msg_hdr.msg_iovlen = parts.len() as _;
        }
        let (fd, count) = (self.socket.as_raw_fd(), frames.len().min(SEND_BATCH) as u32);
        // JUSTIFICATION: a system call for a batch, where the standard library has one for each.
        // SAFETY: the first `count` messages each have two parts, which cover a head (of `self`, or
        // `PLAIN`) and a frame or its end, and all outlive the call.
        let sent =
            unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        system::check(sent).map(|sent| sent as usize)
    }
}

/// The virtio header of a frame that is sent as it is.
static PLAIN: [u8; VNET_LEN] = [0; VNET_LEN];

const NO_BYTES: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Bytes of a message. The kernel only reads through the pointer, whatever its type says.
fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}
