//! Frames out: the sending end of a queue of a device.

use super::Device;
use super::ring::{Descriptor, offset_of};
use super::socket::TxEnd;
use crate::error::PortError;
use crate::interface::Interface;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::sync::Arc;
use thruway_packet::{Batch, Packet};

/// Bytes of an Ethernet header, and of a VLAN tag.
const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
/// System calls for what one call of [`Sender::send`] put into the ring, at most: the kernel takes
/// some 32 frames at each.
const KICKS_MAX: usize = 64;

/// What one go at sending came to. What is in none of the counts stays in the batch: the ring is
/// full, and it may be tried again.
#[derive(Debug, Default)]
pub struct SendResult {
    /// Packets handed to the kernel.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped here: too long or too short for the interface.
    pub refused: usize,
    /// Why the interface takes no frames, if it does not; the packets stay in the batch.
    pub error: Option<PortError>,
    /// Packets that are in the ring still: the driver was busy. To be sent they need another call,
    /// with an empty batch perhaps.
    pub pending: usize,
}

/// Sends by one queue of a device.
pub struct Sender {
    device: Arc<Device>,
    queue: u32,
    /// Taken out by `drop` only.
    end: Option<TxEnd>,
    /// Sent packets that return to the pool; empty between calls.
    done: Batch,
    /// The interface took no frames the last time.
    is_stuck: bool,
}

impl Sender {
    pub(super) fn new(device: Arc<Device>, queue: u32, end: TxEnd) -> Sender {
        Sender { device, queue, end: Some(end), done: Batch::with_room(), is_stuck: false }
    }

    /// Sends packets from the front of a batch, without copying them.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> SendResult {
        let mut result = SendResult::default();
        let Some(end) = &mut self.end else { return result };
        let (lent, done) = (&mut end.lent, &mut self.done);
        end.done.take(usize::MAX, |address| done.extend(lent.take_back(offset_of(address), 0)));
        done.clear();
        if self.is_stuck {
            // Nothing more goes into the ring before the kernel takes from it.
            if let Err(error) = self.kick() {
                result.error = Some(error);
                return result;
            }
        }
        let Some(end) = &mut self.end else { return result };
        let room = end.transmit.room(batch.len()).min(batch.len());
        let mtu = self.device.mtu();
        for packet in batch.drain_front(room) {
            match put(end, packet, mtu) {
                Some(len) => {
                    result.packets += 1;
                    result.bytes += len as u64;
                }
                None => result.refused += 1,
            }
        }
        end.transmit.publish();
        match self.kick() {
            Ok(pending) => result.pending = pending,
            Err(error) => result.error = Some(error),
        }
        result
    }

    /// Lets the kernel send what is in the ring; how much is left there.
    fn kick(&mut self) -> Result<usize, PortError> {
        self.is_stuck = false;
        let Some(end) = &self.end else { return Ok(0) };
        let socket = self.device.socket(self.queue);
        for _ in 0..KICKS_MAX {
            let pending = end.transmit.pending();
            if pending == 0 || !end.transmit.needs_wakeup() {
                // A driver that needs no calls goes on by itself.
                return Ok(0);
            }
            match send(socket, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                // The driver is busy, or its queue full: later.
                Err(Errno::BUSY | Errno::NOBUFS) => break,
                Err(error) => {
                    self.is_stuck = true;
                    return Err(PortError::xdp(&self.interface().name, "sending", error.into()));
                }
            }
            if end.transmit.pending() == pending {
                break;
            }
        }
        Ok(end.transmit.pending())
    }

    /// The queue by which it sends.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// The interface, as it was when the device was opened.
    pub fn interface(&self) -> &Interface {
        self.device.interface()
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

/// Puts a packet into the ring, which has room for it; its length, or `None` where it is dropped
/// because no such frame may go out.
#[inline]
fn put(end: &mut TxEnd, packet: Packet, mtu: usize) -> Option<usize> {
    let len = packet.len();
    let is_tagged = matches!(packet.data().get(12..14), Some([0x81, 0x00] | [0x88, 0xA8]));
    let len_max = mtu + ETHERNET_LEN + if is_tagged { VLAN_LEN } else { 0 };
    if !(ETHERNET_LEN..=len_max).contains(&len) {
        return None;
    }
    let offset = match end.lent.lend(packet) {
        Ok(offset) => offset,
        // In a large frame, which is not in the memory that the kernel knows.
        Err(packet) => end.lent.lend(Packet::new(packet.data())?).ok()?,
    };
    end.transmit.put(Descriptor { offset, len: len as u32, options: 0 });
    Some(len)
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            self.device.give_tx(self.queue, end);
        }
    }
}
