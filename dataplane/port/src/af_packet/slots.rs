//! Slots of memory that the kernel and this process share, for frames in one direction
//! (TPACKET_V2).
//!
//! A slot is owned by the kernel or by us, as the status word at its start says. A header follows
//! (`struct tpacket2_hdr`, of which the status is the first field), then the frame.

use super::vnet::VNET_LEN;
use crate::error::PortError;
use crate::system;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use thruway_sync::atomic::AtomicU32;

/// Unit in which the kernel allocates a ring: contiguous memory, so not too much of it.
const BLOCK_LEN: usize = 64 * 1024;
/// `struct tpacket2_hdr` is rounded up to 16 bytes; what follows it begins here.
pub(super) const HEADER_LEN: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
/// Bytes beside a frame within its slot: header, address, virtio header and alignment.
const SLOT_HEADROOM: usize = 128;
/// Shortest and longest slots.
const SLOT_LEN_MIN: usize = 2048;
const SLOT_LEN_MAX: usize = 16_384;

const _: () = assert!(HEADER_LEN + size_of::<libc::sockaddr_ll>() + VNET_LEN < SLOT_HEADROOM);

/// The two rings that a socket can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Receive,
    Transmit,
}

pub(super) struct Slots {
    base: NonNull<u8>,
    slot_len: usize,
    count: usize,
}

// JUSTIFICATION: a socket is opened in one thread and used by another, and `NonNull` is not Send.
// SAFETY: the mapping is owned by this value alone and is not tied to a thread.
unsafe impl Send for Slots {}

impl Slots {
    /// Makes slots of about `ring_len` bytes in all for frames of `frame_len` bytes (or 16 kB), and
    /// shares them with the kernel.
    pub(super) fn new(
        name: &str,
        socket: &OwnedFd,
        direction: Direction,
        (ring_len, frame_len): (usize, usize),
    ) -> Result<Slots, PortError> {
        let slot_len = frame_len.saturating_add(SLOT_HEADROOM).min(SLOT_LEN_MAX);
        let slot_len = slot_len.next_power_of_two().max(SLOT_LEN_MIN);
        let block_count = (ring_len / BLOCK_LEN).clamp(1, 4096);
        let len = block_count * BLOCK_LEN;
        let count = len / slot_len;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_LEN as u32,
            tp_block_nr: block_count as u32,
            tp_frame_size: slot_len as u32,
            tp_frame_nr: count as u32,
        };
        let (option, step) = match direction {
            Direction::Receive => (libc::PACKET_RX_RING, "setsockopt(PACKET_RX_RING)"),
            Direction::Transmit => (libc::PACKET_TX_RING, "setsockopt(PACKET_TX_RING)"),
        };
        system::set_option(socket, libc::SOL_PACKET, option, &request)
            .map_err(|e| PortError::system(name, step, e))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // JUSTIFICATION: frames without a system call each.
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, socket, 0) };
        let base = base.map_err(|e| PortError::system(name, "mmap of the ring", e.into()))?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Slots { base, slot_len, count })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of each.
    pub(super) fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// Where a slot begins: that many bytes of the mapping are its own, and they are aligned to
    /// their number.
    pub(super) fn at(&self, number: usize) -> *mut u8 {
        assert!(number < self.count);
        self.base.as_ptr().wrapping_add(number * self.slot_len)
    }

    /// The owner of a slot.
    pub(super) fn status(&self, number: usize) -> &AtomicU32 {
        // JUSTIFICATION: the status word is shared with the kernel.
        // SAFETY: it is the slot's first four bytes, within the mapping and aligned, and both sides
        // only access it atomically.
        unsafe { AtomicU32::from_ptr(self.at(number).cast()) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let len = self.count * self.slot_len;
        // JUSTIFICATION: the counterpart of `mmap`.
        // SAFETY: the range is what `mmap` returned (slots divide blocks without rest), and what
        // refers to it borrows this value.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), len) };
    }
}
