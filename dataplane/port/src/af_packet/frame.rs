//! Received frames.

use thruway_packet::Packet;

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
    pub(super) fn from_number(number: u8) -> PacketType {
        match number {
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::OtherHost,
            4 => PacketType::Outgoing,
            _ => PacketType::Host,
        }
    }
}

/// The bytes of a received frame.
#[derive(Debug)]
pub enum Bytes<'a> {
    /// For the time of the callback.
    Borrowed(&'a [u8]),
    /// In the memory of packets already: long ones.
    Owned(Packet),
}

impl std::ops::Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Owned(packet) => packet.data(),
        }
    }
}

/// A received frame.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The whole frame: tagged, checksummed, of a size that fits the wire (but for `segments`).
    pub bytes: Bytes<'a>,
    /// Nanoseconds since 1970 when the kernel saw the frame.
    pub timestamp_ns: u64,
    /// To whom it was addressed.
    pub packet_type: PacketType,
    /// Frames that it stands for: more than 1 only with
    /// [`PacketOptions::whole`](super::PacketOptions::whole).
    pub segments: u8,
}

/// What a socket has done, in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketStatistics {
    /// Given out.
    pub received: u64,
    /// Dropped by the kernel because the ring was full.
    pub dropped_ring_full: u64,
    /// Of these, those that a flood should not displace: segments of TCP connections that may be
    /// open, ARP and neighbour discovery.
    pub dropped_preferred: u64,
    /// Dropped because they fitted no slot, and the kernel had no room for them elsewhere.
    pub dropped_too_long: u64,
    /// Dropped because a sender's offload is one that is not done here (a tunnel, a fragment).
    pub dropped_offload: u64,
    /// Checksums that were completed here for the sender.
    pub checksums_completed: u64,
    /// Frames that were segmented here for the sender.
    pub frames_segmented: u64,
    /// Frames given out that stand for several.
    pub frames_whole: u64,
    /// VLAN tags put back into their frames.
    pub tags_restored: u64,
}
