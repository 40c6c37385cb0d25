//! The receive ring that the kernel and this process share (TPACKET_V2).
//!
//! A slot is owned by the kernel or by us, as its status word says. Version 2 and not 3: version 3
//! hands over blocks of frames, so a lone frame waits until its block's timer runs out (at least a
//! millisecond, and that at every hop of a chain), where version 2 hands over every frame as it
//! comes. Version 3's gain, less memory for small frames, is bought back by short slots: the rare
//! frame that does not fit one (64 kB from a local stack) is queued by the kernel whole, and read
//! from the socket.

use super::PacketType;
use crate::error::PortError;
use crate::system;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// Unit in which the kernel allocates the ring: contiguous memory, so not too much of it.
const BLOCK_LEN: usize = 64 * 1024;
/// `struct tpacket2_hdr` is rounded up to 16 bytes; the link-layer address follows.
const ADDRESS_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
/// Bytes before a frame within its slot: header, address, virtio header and alignment.
const SLOT_HEADROOM: usize = 128;

pub(super) struct Ring {
    base: NonNull<u8>,
    slot_len: usize,
    slot_count: usize,
    /// The next slot that the kernel will fill.
    head: usize,
}

// JUSTIFICATION: a socket is opened in one thread and used by another, and `NonNull` is not Send.
// SAFETY: the mapping is owned by this value alone and is not tied to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes a ring of about `ring_len` bytes whose slots take frames of `frame_len` bytes.
    pub(super) fn new(
        name: &str,
        socket: &OwnedFd,
        (ring_len, frame_len): (usize, usize),
    ) -> Result<Ring, PortError> {
        let slot_len = (frame_len + SLOT_HEADROOM).next_power_of_two().clamp(2048, 16_384);
        let block_count = (ring_len / BLOCK_LEN).clamp(1, 4096);
        let slot_count = block_count * BLOCK_LEN / slot_len;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_LEN as u32,
            tp_block_nr: block_count as u32,
            tp_frame_size: slot_len as u32,
            tp_frame_nr: slot_count as u32,
        };
        system::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(|e| PortError::system(name, "setsockopt(PACKET_RX_RING)", e))?;
        let len = block_count * BLOCK_LEN;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // JUSTIFICATION: frames without a system call or a copy each.
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, socket, 0) };
        let base = base.map_err(|e| PortError::system(name, "mmap of the ring", e.into()))?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Ring { base, slot_len, slot_count, head: 0 })
    }

    /// The next frame, if the kernel has handed one over.
    pub(super) fn next_slot(&mut self) -> Option<Slot<'_>> {
        let base = self.base.as_ptr().wrapping_add(self.head * self.slot_len);
        let slot = Slot { base, ring: self };
        // Acquire: pairs with the kernel's write barrier before it sets the status (tpacket_rcv),
        // so that the slot's header and bytes are seen as the kernel wrote them.
        let status = slot.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            // Not ours: nothing to give back.
            std::mem::forget(slot);
            return None;
        }
        Some(slot)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let len = self.slot_count * self.slot_len;
        // JUSTIFICATION: the counterpart of `mmap`.
        // SAFETY: the range is what `mmap` returned (slots divide blocks without rest), and slots
        // borrow the ring, so none is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), len) };
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
    fn status(&self) -> &AtomicU32 {
        // JUSTIFICATION: the status word is shared with the kernel.
        // SAFETY: it is the slot's first four bytes, within the mapping and aligned (slots are
        // powers of two of at least 2048 bytes), and both sides only access it atomically.
        unsafe { AtomicU32::from_ptr(self.base.cast()) }
    }

    pub(super) fn header(&self) -> SlotHeader {
        // JUSTIFICATION: the header is shared with the kernel.
        // SAFETY: it lies at the slot's start, aligned, and the kernel does not write to it while
        // the slot is ours; any bytes are a valid header.
        let header = unsafe { self.base.cast::<libc::tpacket2_hdr>().read() };
        let address = self.base.wrapping_add(ADDRESS_AT).cast::<libc::sockaddr_ll>();
        // JUSTIFICATION: as above.
        // SAFETY: as above: the address follows the header, at a multiple of 16.
        let address = unsafe { address.read() };
        let has = |flag| header.tp_status & flag != 0;
        let tag = if has(libc::TP_STATUS_VLAN_TPID_VALID) { header.tp_vlan_tpid } else { 0x8100 };
        let frame_at = usize::from(header.tp_mac).min(self.ring.slot_len);
        SlotHeader {
            status: header.tp_status,
            wire_len: header.tp_len as usize,
            captured_len: (header.tp_snaplen as usize).min(self.ring.slot_len - frame_at),
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
        unsafe { std::slice::from_raw_parts_mut(self.base, self.ring.slot_len) }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.ring.head = (self.ring.head + 1) % self.ring.slot_count;
        // Release: what we read from and wrote to the slot comes before the kernel's next use of
        // it; pairs with the kernel's read of the status before it fills the slot.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}
