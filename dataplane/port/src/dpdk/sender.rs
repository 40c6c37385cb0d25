//! Frames out: a transmit queue of a port.

use super::device::Device;
use super::eal;
use super::mbufs::Table;
use super::sys::{self, EXTERNAL, Mbuf};
use std::ptr::NonNull;
use std::sync::Arc;
use thruway_packet::{Batch, MAX_BATCH, Packet};

/// Bytes of an Ethernet header, and of two VLAN tags.
const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 8;

/// What one go at sending came to. What is in none of the counts stays in the batch: the port is
/// busy, and it may be tried again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Packets handed to the driver, or about to be.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped here: too long or too short for the port.
    pub refused: usize,
    /// Packets that the driver has not taken yet. To be sent they need another call, with an empty
    /// batch perhaps.
    pub pending: usize,
}

/// Sends by one queue of a port, by which nobody else sends.
pub struct Sender {
    device: Arc<Device>,
    table: Table,
    queue: u16,
    len_max: usize,
    /// Packets for the driver, from `next` on.
    burst: Vec<NonNull<Mbuf>>,
    next: usize,
}

// SAFETY: the mbufs in `burst` are this value's alone.
unsafe impl Send for Sender {}

impl Sender {
    pub(super) fn new(device: Arc<Device>, table: Table, queue: u16) -> Sender {
        let len_max = usize::from(device.about().mtu) + ETHERNET_LEN + VLAN_LEN;
        let burst = Vec::with_capacity(MAX_BATCH);
        Sender { device, table, queue, len_max, burst, next: 0 }
    }

    /// Sends packets from the front of a batch, without copying them.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> Sent {
        eal::enter();
        let mut result = Sent::default();
        while self.push() && !batch.is_empty() {
            for packet in batch.drain_front(MAX_BATCH) {
                let len = packet.len();
                match put(self.table, self.len_max, packet) {
                    Some(mbuf) => {
                        result.packets += 1;
                        result.bytes += len as u64;
                        self.burst.push(mbuf);
                    }
                    None => result.refused += 1,
                }
            }
        }
        result.pending = self.burst.len() - self.next;
        result
    }

    /// Hands the driver what it has not taken yet; says whether it took all.
    #[inline]
    fn push(&mut self) -> bool {
        let waiting = &mut self.burst[self.next..];
        if waiting.is_empty() {
            return true;
        }
        let (port, count) = (self.device.port(), waiting.len() as u16);
        // JUSTIFICATION: DPDK's call to send.
        // SAFETY: the port runs and has this queue, by which nobody else sends; the mbufs are ours,
        // and those that are taken are not used any more.
        let taken = unsafe { sys::tw_tx(port, self.queue, waiting.as_mut_ptr(), count) };
        self.next += usize::from(taken);
        let is_done = self.next == self.burst.len();
        if is_done {
            self.burst.clear();
            self.next = 0;
        }
        is_done
    }

    /// Ends it, and says how many packets that were counted as handed over the driver did not take.
    pub fn close(mut self) -> usize {
        self.push();
        self.burst.len() - self.next
    }

    /// The port.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The queue by which it sends.
    pub fn queue(&self) -> u16 {
        self.queue
    }
}

/// The mbuf of a packet, which is DPDK's from now on; `None` where it is dropped because no such
/// packet may go out.
#[inline]
fn put(table: Table, len_max: usize, packet: Packet) -> Option<NonNull<Mbuf>> {
    if !(ETHERNET_LEN..=len_max).contains(&packet.len()) {
        return None;
    }
    let extent = match table.frames.give(packet) {
        Ok(extent) => extent,
        // In a large frame, which DPDK does not know.
        Err(packet) => table.frames.give(Packet::new(packet.data())?).ok()?,
    };
    let mut mbuf = table.mbuf(extent.number);
    // JUSTIFICATION: DPDK's structure.
    // SAFETY: the frame was given up by its packet, so its mbuf is nobody's.
    let header = unsafe { mbuf.as_mut() };
    header.data_off = extent.start;
    header.data_len = extent.len;
    header.pkt_len = u32::from(extent.len);
    header.ol_flags = EXTERNAL;
    Some(mbuf)
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.push();
        for mbuf in self.burst.drain(..).skip(self.next) {
            // JUSTIFICATION: a function of the shim.
            // SAFETY: the mbuf is ours, and not used any more.
            unsafe { sys::tw_free(mbuf) };
        }
        self.device.give_tx(self.queue);
    }
}
