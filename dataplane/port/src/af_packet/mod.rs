//! Frames from and to a network interface by packet sockets: any interface of a stock kernel.
//!
//! A local stack hands down work that it expects hardware to finish: checksums left open, TCP and UDP
//! frames of up to 64 kB to be cut, VLAN tags beside the frame. The kernel says so in a virtio header
//! (PACKET_VNET_HDR), and receiving finishes that work in software, so every frame given out is one
//! that could have been on a wire.
//!
//! Transmission is by `sendmmsg`, not by a transmit ring: the kernel gives a ring's slot back when the
//! receiver of a virtual link orphans the buffer, which may be before it has read it, so a reused slot
//! could change a frame in flight.

mod offload;
mod options;
mod ring;
mod segment;
mod transmit;

pub use options::{Fanout, FanoutMode, PacketOptions};
pub use transmit::SEND_BATCH;

use crate::checksum;
use crate::error::PortError;
use crate::interface::{self, Interface};
use offload::OffloadGuard;
use ring::{Ring, SlotHeader};
use segment::Segmenter;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use transmit::Transmitter;

/// Room before a frame for a VLAN tag that the kernel took out.
const VLAN_LEN: usize = 4;
/// `struct virtio_net_hdr`.
const VNET_LEN: usize = 10;
/// The largest frame that a stack hands down without "big TCP": 64 kB and headers.
const LARGE_FRAME_LEN: usize = 65_536 + 256;

/// To whom a frame was addressed, seen from the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketType {
    /// This interface.
    Host,
    /// All.
    Broadcast,
    /// A group.
    Multicast,
    /// Another host; seen because of promiscuous mode.
    OtherHost,
    /// Sent by this host through the interface.
    Outgoing,
}

impl PacketType {
    fn from_number(number: u8) -> PacketType {
        match number {
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::OtherHost,
            4 => PacketType::Outgoing,
            _ => PacketType::Host,
        }
    }
}

/// A received frame, borrowed for the time of the callback.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The whole frame: tagged, checksummed, of a size that fits the wire.
    pub bytes: &'a [u8],
    /// Nanoseconds since 1970 when the kernel saw the frame.
    pub timestamp_ns: u64,
    /// To whom it was addressed.
    pub packet_type: PacketType,
}

/// What a socket has done, in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketStatistics {
    /// Given out.
    pub received: u64,
    /// Dropped by the kernel because the ring was full.
    pub dropped_ring_full: u64,
    /// Dropped because they fitted no slot, and the kernel had no room for them elsewhere.
    pub dropped_too_long: u64,
    /// Dropped because a sender's offload is one that is not done here (a tunnel, a fragment).
    pub dropped_offload: u64,
    /// Checksums that were completed here for the sender.
    pub checksums_completed: u64,
    /// Frames that were segmented here for the sender.
    pub frames_segmented: u64,
    /// VLAN tags put back into their frames.
    pub tags_restored: u64,
    /// Taken by the kernel for transmission.
    pub sent: u64,
    /// Refused by the kernel on transmission: too long or too short for the interface.
    pub dropped_refused: u64,
}

/// `struct virtio_net_hdr`, in the machine's byte order.
#[derive(Debug, Clone, Copy, Default)]
struct VnetHeader {
    needs_checksum: bool,
    gso_type: u8,
    gso_len: usize,
    checksum_start: usize,
    checksum_offset: usize,
}

impl VnetHeader {
    fn parse(bytes: [u8; VNET_LEN]) -> VnetHeader {
        let u16_at = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        VnetHeader {
            needs_checksum: bytes[0] & 1 != 0,
            // The top bit says that the ECN rule for the CWR flag applies: it always does here.
            gso_type: bytes[1] & 0x7F,
            gso_len: u16_at(4),
            checksum_start: u16_at(6),
            checksum_offset: u16_at(8),
        }
    }
}

// Values of `gso_type`.
const GSO_NONE: u8 = 0;
const GSO_TCP_IPV4: u8 = 1;
const GSO_TCP_IPV6: u8 = 4;
const GSO_UDP: u8 = 5;

/// A packet socket on one interface: a receive ring, and batches out.
pub struct PacketSocket {
    // Declared before the socket: dropped first.
    ring: Ring,
    receive: OwnedFd,
    transmit: Transmitter,
    interface: Interface,
    finisher: Finisher,
    offloads: Option<OffloadGuard>,
}

impl PacketSocket {
    /// Opens `name` for receiving and sending.
    ///
    /// # Errors
    /// There is no such interface, it is down, the process may not open packet sockets, or the kernel
    /// refused a step.
    pub fn open(name: &str, options: &PacketOptions) -> Result<PacketSocket, PortError> {
        let interface = interface::find(name)?;
        if !interface.is_up {
            return Err(PortError::Down { name: name.to_owned() });
        }
        let frame_len = interface::mtu(name)? + 18;
        let receive = options::receive_socket(name, options)?;
        let ring = Ring::new(name, &receive, (options.ring_len, frame_len))?;
        options::attach(&receive, &interface, options)?;
        let offloads = match options.offloads_off {
            true => Some(OffloadGuard::new(name)?),
            false => None,
        };
        let transmit = Transmitter::open(&interface, options.qdisc_bypass)?;
        let finisher = Finisher::new(interface.is_ethernet, options.ignore_outgoing);
        Ok(PacketSocket { ring, receive, transmit, interface, finisher, offloads })
    }

    /// Gives up to `count_max` frames to `take`, without waiting; returns how many.
    #[inline]
    pub fn receive(&mut self, count_max: usize, mut take: impl FnMut(Frame<'_>)) -> usize {
        let mut left = count_max;
        while left > 0 {
            if self.finisher.segmenter.is_pending() {
                left -= self.finisher.give_segments(left, &mut take);
                continue;
            }
            let Some(mut slot) = self.ring.next_slot() else { break };
            let header = slot.header();
            let is_whole = header.captured_len >= header.wire_len;
            let given = if is_whole {
                self.finisher.from_slot(slot.bytes(), &header, &mut take)
            } else {
                self.finisher.from_socket(&self.receive, &header, &mut take)
            };
            left -= usize::from(given);
        }
        let count = count_max - left;
        self.finisher.statistics.received += count as u64;
        count
    }

    /// Sends `frames` in order; returns how many were taken care of, sent or refused as they are.
    /// Fewer than all: the interface's queue is full, and the rest may be tried again.
    ///
    /// # Errors
    /// The interface went down or away. Frames before were sent.
    pub fn send(&mut self, frames: &[&[u8]]) -> Result<usize, PortError> {
        self.transmit.send(&self.interface.name, frames)
    }

    /// What went wrong with the socket since the last call: an interface that went down. To be asked
    /// when `poll` reports an error.
    ///
    /// # Errors
    /// The error that was pending, [`PortError::Down`] mostly.
    pub fn take_error(&self) -> Result<(), PortError> {
        let name = &self.interface.name;
        match rustix::net::sockopt::socket_error(&self.receive) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) | Err(e) => Err(PortError::system(name, "receiving", e.into())),
        }
    }

    /// Counts since opening. Asks the kernel for its drops.
    pub fn statistics(&mut self) -> PacketStatistics {
        // The kernel's count starts anew with every call.
        let drops = options::take_drops(&self.receive);
        self.finisher.statistics.dropped_ring_full += drops;
        let (sent, dropped_refused) = self.transmit.counts();
        PacketStatistics { sent, dropped_refused, ..self.finisher.statistics }
    }

    /// The interface, as it was when the socket was opened.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The offloads that were switched off for the time of use.
    pub fn offloads_switched_off(&self) -> &[&'static str] {
        self.offloads.as_ref().map_or(&[], OffloadGuard::switched_off)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receive.as_fd()
    }
}

impl AsRawFd for PacketSocket {
    /// For `poll`: readable when a frame is there.
    fn as_raw_fd(&self) -> RawFd {
        self.receive.as_raw_fd()
    }
}

/// Finishes what senders left to hardware.
struct Finisher {
    is_ethernet: bool,
    ignore_outgoing: bool,
    /// A frame that fitted no slot.
    large: Vec<u8>,
    segmenter: Segmenter,
    /// Of the frame in the segmenter.
    timestamp_ns: u64,
    packet_type: PacketType,
    statistics: PacketStatistics,
}

impl Finisher {
    fn new(is_ethernet: bool, ignore_outgoing: bool) -> Finisher {
        Finisher {
            is_ethernet,
            ignore_outgoing,
            large: vec![0; VLAN_LEN + LARGE_FRAME_LEN],
            segmenter: Segmenter::default(),
            timestamp_ns: 0,
            packet_type: PacketType::Host,
            statistics: PacketStatistics::default(),
        }
    }

    /// Gives segments of the frame in hand.
    fn give_segments(&mut self, count_max: usize, take: &mut impl FnMut(Frame<'_>)) -> usize {
        let mut count = 0;
        while count < count_max {
            let Some(bytes) = self.segmenter.next_segment() else { break };
            let (timestamp_ns, packet_type) = (self.timestamp_ns, self.packet_type);
            take(Frame { bytes, timestamp_ns, packet_type });
            count += 1;
        }
        count
    }

    /// A frame that is whole in its slot. Whether it was given.
    fn from_slot(
        &mut self,
        slot: &mut [u8],
        header: &SlotHeader,
        take: &mut impl FnMut(Frame<'_>),
    ) -> bool {
        let at = header.frame_at;
        let Some(vnet) = at.checked_sub(VNET_LEN).and_then(|from| slot.get(from..at)) else {
            self.statistics.dropped_offload += 1;
            return false;
        };
        let vnet = VnetHeader::parse(vnet.try_into().expect("a slice of that length"));
        let room = &mut slot[at - VLAN_LEN..at + header.captured_len];
        self.finish(room, vnet, header, take)
    }

    /// A frame that did not fit its slot: the kernel queued it whole, if it had the room.
    fn from_socket(
        &mut self,
        socket: &OwnedFd,
        header: &SlotHeader,
        take: &mut impl FnMut(Frame<'_>),
    ) -> bool {
        if header.status & libc::TP_STATUS_COPY == 0 {
            self.statistics.dropped_too_long += 1;
            return false;
        }
        let mut vnet = [0; VNET_LEN];
        let mut large = std::mem::take(&mut self.large);
        let parts =
            &mut [io::IoSliceMut::new(&mut vnet), io::IoSliceMut::new(&mut large[VLAN_LEN..])];
        let received = rustix::io::readv(socket, parts).unwrap_or(0);
        let given = match received.checked_sub(VNET_LEN) {
            Some(len) if len == header.wire_len => {
                let room = &mut large[..VLAN_LEN + len];
                self.finish(room, VnetHeader::parse(vnet), header, take)
            }
            _ => {
                self.statistics.dropped_too_long += 1;
                false
            }
        };
        self.large = large;
        given
    }

    /// `room` is [`VLAN_LEN`] bytes and then the frame. Whether the frame was given now; one to be
    /// segmented is only taken in hand.
    fn finish(
        &mut self,
        room: &mut [u8],
        vnet: VnetHeader,
        header: &SlotHeader,
        take: &mut impl FnMut(Frame<'_>),
    ) -> bool {
        if self.ignore_outgoing && header.packet_type == PacketType::Outgoing {
            return false;
        }
        let frame = &mut room[VLAN_LEN..];
        let (start, offset) = (vnet.checksum_start, vnet.checksum_offset);
        if vnet.gso_type == GSO_NONE && vnet.needs_checksum {
            const UDP_CHECKSUM_AT: usize = 6;
            if !checksum::complete(frame, start, offset, offset == UDP_CHECKSUM_AT) {
                self.statistics.dropped_offload += 1;
                return false;
            }
            self.statistics.checksums_completed += 1;
        }
        let bytes = self.restore_tag(room, header.vlan);
        let (timestamp_ns, packet_type) = (header.timestamp_ns, header.packet_type);
        match vnet.gso_type {
            GSO_NONE => take(Frame { bytes, timestamp_ns, packet_type }),
            GSO_TCP_IPV4 | GSO_TCP_IPV6 | GSO_UDP
                if self.segmenter.load(bytes, vnet.gso_len, self.is_ethernet) =>
            {
                (self.timestamp_ns, self.packet_type) = (timestamp_ns, packet_type);
                self.statistics.frames_segmented += 1;
            }
            _ => self.statistics.dropped_offload += 1,
        }
        vnet.gso_type == GSO_NONE
    }

    /// The frame, with the tag that the kernel took out put back behind the two addresses.
    fn restore_tag<'a>(&mut self, room: &'a mut [u8], vlan: Option<(u16, u16)>) -> &'a [u8] {
        const ADDRESSES_LEN: usize = 12;
        match vlan {
            Some((protocol, tag)) if self.is_ethernet && room.len() >= ADDRESSES_LEN + VLAN_LEN => {
                room.copy_within(VLAN_LEN..VLAN_LEN + ADDRESSES_LEN, 0);
                let place = &mut room[ADDRESSES_LEN..ADDRESSES_LEN + VLAN_LEN];
                place[..2].copy_from_slice(&protocol.to_be_bytes());
                place[2..].copy_from_slice(&tag.to_be_bytes());
                self.statistics.tags_restored += 1;
                room
            }
            _ => &room[VLAN_LEN..],
        }
    }
}
