//! Batches out by `sendmmsg`.

use super::options;
use crate::error::PortError;
use crate::interface::Interface;
use crate::system;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Frames in one system call.
pub const SEND_BATCH: usize = 64;

/// A packet socket that only sends. It is not the receiving one: that would want a virtio header
/// before every frame.
pub(super) struct Transmitter {
    socket: OwnedFd,
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
        options::bind(&socket, interface, 0).map_err(|e| PortError::system(name, "bind", e))?;
        Ok(Transmitter { socket, sent: 0, refused: 0 })
    }

    /// Frames sent, and frames that the kernel refused as they are.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent, self.refused)
    }

    /// See [`super::PacketSocket::send`].
    pub(super) fn send(&mut self, name: &str, frames: &[&[u8]]) -> Result<usize, PortError> {
        let mut done = 0;
        while done < frames.len() {
            let batch = &frames[done..frames.len().min(done + SEND_BATCH)];
            match self.send_batch(batch) {
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
                    _ => return Err(PortError::system(name, "sendmmsg", e)),
                },
            }
        }
        Ok(done)
    }

    /// One system call: how many of `frames` were sent, or why the first was not.
    fn send_batch(&self, frames: &[&[u8]]) -> io::Result<usize> {
        const NO_BYTES: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut parts = [NO_BYTES; SEND_BATCH];
        for (part, frame) in parts.iter_mut().zip(frames) {
            // The kernel only reads through this pointer, whatever its type says.
            let iov_base = frame.as_ptr().cast_mut().cast();
            *part = libc::iovec { iov_base, iov_len: frame.len() };
        }
        // JUSTIFICATION: `sendmmsg` takes C structures, which have private padding.
        // SAFETY: all-zero bytes are a valid `mmsghdr`: integers and null pointers.
        let mut messages: [libc::mmsghdr; SEND_BATCH] = unsafe { std::mem::zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let (fd, count) = (self.socket.as_raw_fd(), frames.len().min(SEND_BATCH) as u32);
        // JUSTIFICATION: a system call for a batch, where the standard library has one for each.
        // SAFETY: the first `count` messages each have one part that covers a frame, and all
        // outlive the call.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        system::check(sent).map(|sent| sent as usize)
    }
}
