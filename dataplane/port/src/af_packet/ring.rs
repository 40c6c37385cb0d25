//! The receive ring that the kernel and this process share (TPACKET_V2).
//!
//! A slot is owned by the kernel or by us, as its status word says. Version 2 and not 3: version 3
//! hands over blocks of frames, so a lone frame waits until its block's timer runs out (at least a
//! millisecond, and that at every hop of a chain), where version 2 hands over every frame as it
//! comes. Version 3's gain, less memory for small frames, is bought back by short slots: the rare
//! frame that does not fit one (64 kB from a local stack) is queued by the kernel whole, and read
//! from the socket.

use super::frame::PacketType;
use super::slots::{Direction, HEADER_LEN, Slots};
use crate::error::PortError;
use std::os::fd::OwnedFd;
use thruway_sync::atomic::Ordering;

pub(super) struct Ring {
    slots: Slots,
    /// The next slot that the kernel will fill.
    head: usize,
}

impl Ring {
    /// Makes a ring of about `ring_len` bytes with slots for frames of `frame_len` bytes.
    pub(super) fn new(
        name: &str,
        socket: &OwnedFd,
        lens: (usize, usize),
    ) -> Result<Ring, PortError> {
        Ok(Ring { slots: Slots::new(name, socket, Direction::Receive, lens)?, head: 0 })
    }

    /// Whether the kernel has handed a frame over.
    #[inline]
    pub(super) fn has_frame(&self) -> bool {
        self.is_ours(self.head)
    }

    /// Whether frames wait in half of the slots: the kernel fills them in order.
    #[inline]
    pub(super) fn is_half_full(&self) -> bool {
        let distance = self.head + self.slots.count() / 2;
        self.is_ours(distance.checked_sub(self.slots.count()).unwrap_or(distance))
    }

    /// When the next frame came, as seconds and nanoseconds since 1970: there must be one.
    #[inline]
    pub(super) fn arrival(&self) -> (u32, u32) {
        let header = self.slots.at(self.head).cast::<libc::tpacket2_hdr>();
        // JUSTIFICATION: the header is shared with the kernel.
        // SAFETY: it lies at the slot's start, aligned; any bytes are a valid header. The kernel
        // does not write to it while the slot is ours, as callers have seen that it is.
        let header = unsafe { header.read() };
        (header.tp_sec, header.tp_nsec)
    }

    #[inline]
    fn is_ours(&self, number: usize) -> bool {
        // Acquire: pairs with the kernel's write barrier before it sets the status (tpacket_rcv),
        // so that the slot's header and bytes are seen as the kernel wrote them.
        self.slots.status(number).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The next frame, if the kernel has handed one over.
    #[inline]
    pub(super) fn next_slot(&mut self) -> Option<Slot<'_>> {
        self.has_frame().then(|| Slot { base: self.slots.at(self.head), ring: self })
    }
}

/// A slot that is ours; goes back to the kernel on drop.
pub(super) struct Slot<'a> {
    base: *mut u8,
    ring: &'a mut Ring,
}

/// What the kernel says of a frame.
pub(super) struct SlotHeader {
    pub(super) status: u32,
    /// Bytes of the frame.
    pub(super) wire_len: usize,
    /// Bytes of it in the slot.
    pub(super) captured_len: usize,
    /// Where the frame starts in the slot.
    pub(super) frame_at: usize,
    pub(super) timestamp_ns: u64,
    /// Tag protocol and tag, if the kernel took a VLAN tag out of the frame.
    pub(super) vlan: Option<(u16, u16)>,
    pub(super) packet_type: PacketType,
}

impl Slot<'_> {
    pub(super) fn header(&self) -> SlotHeader {
        // JUSTIFICATION: the header is shared with the kernel.
        // SAFETY: it lies at the slot's start, aligned, and the kernel does not write to it while
        // the slot is ours; any bytes are a valid header.
        let header = unsafe { self.base.cast::<libc::tpacket2_hdr>().read() };
        let address = self.base.wrapping_add(HEADER_LEN).cast::<libc::sockaddr_ll>();
        // JUSTIFICATION: as above.
        // SAFETY: as above: the address follows the header, at a multiple of 16.
        let address = unsafe { address.read() };
        let has = |flag| header.tp_status & flag != 0;
        let tag = if has(libc::TP_STATUS_VLAN_TPID_VALID) { header.tp_vlan_tpid } else { 0x8100 };
        let frame_at = usize::from(header.tp_mac).min(self.ring.slots.slot_len());
        SlotHeader {
            status: header.tp_status,
            wire_len: header.tp_len as usize,
            captured_len: (header.tp_snaplen as usize).min(self.ring.slots.slot_len() - frame_at),
            frame_at,
            timestamp_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            vlan: has(libc::TP_STATUS_VLAN_VALID).then_some((tag, header.tp_vlan_tci)),
            packet_type: PacketType::from_number(address.sll_pkttype),
        }
    }

    /// The slot's bytes.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // JUSTIFICATION: frames are worked on where they are, without a copy.
        // SAFETY: the slot lies within the mapping; while its status is ours the kernel leaves it
        // alone, and `&mut self` sees to it that this is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.ring.slots.slot_len()) }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let Ring { slots, head } = &mut *self.ring;
        // Release: what we read from and wrote to the slot comes before the kernel's next use of
        // it; pairs with the kernel's read of the status before it fills the slot.
        slots.status(*head).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        *head = if *head + 1 == slots.count() { 0 } else { *head + 1 };
    }
}
