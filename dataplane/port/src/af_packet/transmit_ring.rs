//! The ring by which frames leave (TPACKET_V2): copied to slots, then one system call for a batch.
//!
//! A frame is in the ring for the time of a call only: what the kernel did not take is taken back,
//! and stays the caller's. So a frame waits in one place, and the rules of `sendmmsg` hold here,
//! too.
//!
//! The virtio header of each frame says that all of it is header. So the kernel copies it whole
//! into its own packet, and is done with the slot's bytes when the call returns. (It would
//! otherwise have its packet point to the slot, and copy it, a page for each, as soon as a virtual
//! link takes the packet over; before Linux 5.0 the receiver then saw what was written to the slot
//! next.) The slot is not free before the packet is gone, all the same: frames that wait in a long
//! queue keep theirs.

use super::OutFrame;
use super::options;
use super::slots::{Direction, HEADER_LEN, Slots};
use super::vnet::VNET_LEN;
use crate::error::PortError;
use crate::interface::{self, Interface};
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::OwnedFd;
use thruway_sync::atomic::Ordering;

/// Memory of a ring: 1,024 slots for frames of 1,500 bytes, 128 for the longest. More were no
/// faster.
const RING_LEN: usize = 2 << 20;
/// Shorter frames fit every MTU: what every host must accept by RFC 791 section 3.1, in Ethernet.
const SHORT_LEN: usize = 576 + 14;
/// Where `hdr_len` is in `struct virtio_net_hdr`.
const HEADERS_LEN_AT: usize = 2;
/// Where `tp_len` is in `struct tpacket2_hdr`, behind the status.
const FRAME_LEN_AT: usize = size_of::<u32>();

pub(super) struct TransmitRing {
    // Declared before the socket: dropped first.
    slots: Slots,
    socket: OwnedFd,
    name: String,
    /// Bytes of the link-layer header, without which no frame is one.
    header_len: usize,
    /// Longest frame that the interface takes, when it was asked last.
    frame_len_max: usize,
    /// The slot at which the kernel looks next.
    head: usize,
}

impl TransmitRing {
    pub(super) fn open(interface: &Interface, bypass: bool) -> Result<TransmitRing, PortError> {
        let name = interface.name.clone();
        let header_len = if interface.is_ethernet { 14 } else { 0 };
        let frame_len_max = interface::mtu(&name)? + header_len;
        let socket = options::send_socket(&name, bypass)?;
        options::use_version_2(&name, &socket)?;
        let lens = (RING_LEN, frame_len_max);
        let slots = Slots::new(&name, &socket, Direction::Transmit, lens)?;
        options::bind(&socket, interface, 0).map_err(|e| PortError::system(&name, "bind", e))?;
        Ok(TransmitRing { slots, socket, name, header_len, frame_len_max, head: 0 })
    }

    /// Whether a frame may be put to a slot. The kernel itself does not compare its length with the
    /// MTU where there are virtio headers.
    pub(super) fn fits(&self, frame: &OutFrame<'_>) -> bool {
        let len = frame.bytes.len();
        let room = self.slots.slot_len() - HEADER_LEN - VNET_LEN;
        let fits = len >= self.header_len.max(1) && len <= self.frame_len_max.min(room);
        frame.segments <= 1 && fits
    }

    /// Sends frames from the front of `frames` that suit; how many, which is 0 if the first does
    /// not suit or finds no free slot. One system call.
    ///
    /// # Errors
    /// Why the first was not sent.
    pub(super) fn send(&mut self, frames: &[OutFrame<'_>]) -> io::Result<usize> {
        if frames.iter().any(|frame| frame.bytes.len() > SHORT_LEN) {
            let mtu = interface::mtu_by(&self.socket, &self.name).unwrap_or(0);
            self.frame_len_max = mtu + self.header_len;
        }
        let (count, len) = self.fill(frames);
        if count == 0 {
            return Ok(0);
        }
        let result = send(&self.socket, &[], SendFlags::DONTWAIT);
        let sent = match result {
            Ok(sent_len) if sent_len == len => count,
            _ => self.take_back(count),
        };
        self.head = self.number(sent);
        match result {
            Err(error) if sent == 0 => Err(error.into()),
            _ => Ok(sent),
        }
    }

    /// The slot that comes so many behind the next one, at most once around.
    fn number(&self, distance: usize) -> usize {
        let number = self.head + distance;
        if number < self.slots.count() { number } else { number - self.slots.count() }
    }

    /// Puts frames to free slots: how many, and how many bytes.
    fn fill(&mut self, frames: &[OutFrame<'_>]) -> (usize, usize) {
        let (mut count, mut len) = (0, 0);
        for frame in frames.iter().take(self.slots.count()) {
            let number = self.number(count);
            // Acquire: what the kernel did with the slot is over before we write to it; pairs with
            // its barrier before it frees the slot (tpacket_destruct_skb).
            let status = self.slots.status(number).load(Ordering::Acquire);
            if status != libc::TP_STATUS_AVAILABLE || !self.fits(frame) {
                break;
            }
            self.put(number, frame.bytes);
            // Release: the kernel sees the frame as it was written once it sees the status; pairs
            // with its read of the status (packet_current_frame).
            self.slots.status(number).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            count += 1;
            len += frame.bytes.len();
        }
        (count, len)
    }

    /// Writes a frame to a free slot, which it fits.
    fn put(&mut self, number: usize, bytes: &[u8]) {
        let rest = self.slots.slot_len() - FRAME_LEN_AT;
        let begin = self.slots.at(number).wrapping_add(FRAME_LEN_AT);
        // JUSTIFICATION: the slot is where the kernel takes the frame from.
        // SAFETY: these bytes are the slot's, behind its status; the kernel leaves them alone while
        // the slot is free, any bytes are valid, and `&mut self` sees to it that this is the only
        // reference.
        let slot = unsafe { std::slice::from_raw_parts_mut(begin, rest) };
        let (header, frame) = slot.split_at_mut(HEADER_LEN - FRAME_LEN_AT);
        // Lossless: a slot has at most 16 kB.
        let len = bytes.len() as u16;
        header[..4].copy_from_slice(&u32::from(len + VNET_LEN as u16).to_ne_bytes());
        let (vnet, frame) = frame.split_at_mut(VNET_LEN);
        vnet.fill(0);
        vnet[HEADERS_LEN_AT..HEADERS_LEN_AT + 2].copy_from_slice(&len.to_ne_bytes());
        frame[..bytes.len()].copy_from_slice(bytes);
    }

    /// Frees the slots, of `count` that were filled, that the kernel did not take: from the first
    /// on that it refused for now (it left the status) or for ever (it set another one). How many
    /// it took.
    fn take_back(&mut self, count: usize) -> usize {
        let left = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        // Relaxed: only the call that is over set these statuses, in this thread.
        let is_left = |distance: &usize| {
            self.slots.status(self.number(*distance)).load(Ordering::Relaxed) & left != 0
        };
        let taken = (0..count).find(is_left).unwrap_or(count);
        for distance in taken..count {
            let status = self.slots.status(self.number(distance));
            status.store(libc::TP_STATUS_AVAILABLE, Ordering::Relaxed);
        }
        taken
    }
}

#[cfg(test)]
#[path = "transmit_ring_tests.rs"]
mod tests;
