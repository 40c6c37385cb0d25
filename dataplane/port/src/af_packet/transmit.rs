//! Batches out by `sendmmsg`.

use super::OutFrame;
use super::finish::VNET_LEN;
use super::options;
use super::whole::Head;
use crate::error::PortError;
use crate::interface::Interface;
use crate::system;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Frames in one system call.
pub const SEND_BATCH: usize = 64;

/// Bytes on their way to an interface at most: some dozen frames of 64 kB.
const SEND_BUFFER_LEN: i32 = 4 << 20;

/// A packet socket that only sends. Before every frame it has a virtio header, which tells the
/// kernel of frames that are to be cut.
pub(super) struct Transmitter {
    socket: OwnedFd,
    /// Virtio headers of the frames of a batch, with a copy of the frame's headers where they
    /// differ.
    heads: Box<[Head; SEND_BATCH]>,
    sent: u64,
    refused: u64,
}

impl Transmitter {
    pub(super) fn open(interface: &Interface, bypass: bool) -> Result<Transmitter, PortError> {
        let name = &interface.name;
        let flags = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
        let socket = system::socket(libc::AF_PACKET, flags, 0)
            .map_err(|e| PortError::system(name, "socket(AF_PACKET)", e))?;
        if bypass {
            system::set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
                .map_err(|e| PortError::system(name, "setsockopt(PACKET_QDISC_BYPASS)", e))?;
        }
        system::set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)
            .map_err(|e| PortError::system(name, "setsockopt(PACKET_VNET_HDR)", e))?;
        options::set_buffer(&socket, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], SEND_BUFFER_LEN);
        options::bind(&socket, interface, 0).map_err(|e| PortError::system(name, "bind", e))?;
        Ok(Transmitter { socket, heads: Box::new([Head::NONE; SEND_BATCH]), sent: 0, refused: 0 })
    }

    /// Frames sent, and frames that the kernel refused as they are.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent, self.refused)
    }

    /// See [`super::PacketSocket::send`].
    pub(super) fn send(
        &mut self,
        interface: &Interface,
        frames: &[OutFrame<'_>],
    ) -> Result<usize, PortError> {
        let mut done = 0;
        while done < frames.len() {
            let batch = &frames[done..frames.len().min(done + SEND_BATCH)];
            match self.send_batch(batch, interface.is_ethernet) {
                Ok(count) => {
                    self.sent += count as u64;
                    done += count;
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The queue is full.
                    Some(libc::EAGAIN | libc::ENOBUFS) => break,
                    // Longer than the MTU, or shorter than a header: this one will never go.
                    Some(libc::EMSGSIZE | libc::EINVAL) => {
                        self.refused += 1;
                        done += 1;
                    }
                    _ => return Err(PortError::system(&interface.name, "sendmmsg", e)),
                },
            }
        }
        Ok(done)
    }

    /// One system call: how many of `frames` were sent, or why the first was not.
    fn send_batch(&mut self, frames: &[OutFrame<'_>], is_ethernet: bool) -> io::Result<usize> {
        let mut parts = [[NO_BYTES; 2]; SEND_BATCH];
        for ((parts, head), frame) in parts.iter_mut().zip(self.heads.iter_mut()).zip(frames) {
            let bytes = frame.bytes;
            let whole = match frame.segments {
                0 | 1 => None,
                segments => head.set(bytes, segments, is_ethernet),
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
            message.msg_hdr.msg_iovlen = parts.len();
        }
        let (fd, count) = (self.socket.as_raw_fd(), frames.len().min(SEND_BATCH) as u32);
        // JUSTIFICATION: a system call for a batch, where the standard library has one for each.
        // SAFETY: the first `count` messages each have two parts, which cover a head (of `self`, or
        // `PLAIN`) and a frame or its end, and all outlive the call.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
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
