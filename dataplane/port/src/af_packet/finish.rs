//! Finishes received frames: what their senders left to hardware is done here, in software.

use super::frame::{Bytes, Frame, PacketStatistics, PacketType};
use super::options::PacketOptions;
use super::ring::SlotHeader;
use super::segment::Segmenter;
use super::vnet::{GSO_NONE, GSO_TCP_IPV4, GSO_TCP_IPV6, GSO_UDP, VNET_LEN, VnetHeader};
use super::whole;
use std::io;
use std::os::fd::OwnedFd;
use thruway_packet::Packet;
use thruway_wire::checksum::Sum;

/// Room before a frame for a VLAN tag that the kernel took out.
const VLAN_LEN: usize = 4;
/// The largest frame that a stack hands down without "big TCP": 64 kB and headers.
const LARGE_FRAME_LEN: usize = 65_536 + 256;

/// Finishes what senders left to hardware.
pub(super) struct Finisher {
    is_ethernet: bool,
    ignore_outgoing: bool,
    /// TCP frames that stand for several are given as they are.
    whole: bool,
    /// Room for a frame that fits no slot.
    large: Option<Packet>,
    segmenter: Segmenter,
    /// Of the frame in the segmenter.
    timestamp_ns: u64,
    packet_type: PacketType,
    pub(super) statistics: PacketStatistics,
}

impl Finisher {
    pub(super) fn new(is_ethernet: bool, options: &PacketOptions) -> Finisher {
        Finisher {
            is_ethernet,
            ignore_outgoing: options.ignore_outgoing,
            whole: options.whole,
            large: None,
            segmenter: Segmenter::default(),
            timestamp_ns: 0,
            packet_type: PacketType::Host,
            statistics: PacketStatistics::default(),
        }
    }

    /// Whether a frame is in progress with segments left to return.
    pub(super) fn has_segments(&self) -> bool {
        self.segmenter.is_pending()
    }

    /// Gives segments of the frame in hand.
    pub(super) fn give_segments(
        &mut self,
        count_max: usize,
        take: &mut impl FnMut(Frame<'_>),
    ) -> usize {
        let mut count = 0;
        while count < count_max {
            let Some(bytes) = self.segmenter.next_segment() else { break };
            let (timestamp_ns, packet_type) = (self.timestamp_ns, self.packet_type);
            take(Frame { bytes: Bytes::Borrowed(bytes), timestamp_ns, packet_type, segments: 1 });
            count += 1;
        }
        count
    }

    /// A frame that is whole in its slot. Whether it was given.
    pub(super) fn finish_slot(
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
        let Some(done) = self.finish(room, vnet, header) else { return false };
        take(done.frame(header, Bytes::Borrowed(&room[done.begin..])));
        true
    }

    /// A frame that did not fit its slot: the kernel queued it whole, if it had the room. It is
    /// read straight into the memory of packets.
    pub(super) fn finish_queued(
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
        let mut packet = self.large.take().or_else(large_packet);
        let room = packet.as_mut().map_or(&mut [][..], Packet::data_mut);
        // Without memory the frame is read to be gone.
        let frame = room.get_mut(VLAN_LEN..).unwrap_or_default();
        let parts = &mut [io::IoSliceMut::new(&mut vnet), io::IoSliceMut::new(frame)];
        let received = rustix::io::readv(socket, parts).unwrap_or(0);
        let is_whole = received.checked_sub(VNET_LEN) == Some(header.wire_len);
        if !is_whole || room.is_empty() {
            self.large = packet;
            self.statistics.dropped_too_long += 1;
            return false;
        }
        let room = &mut room[..VLAN_LEN + header.wire_len];
        let Some(done) = self.finish(room, VnetHeader::parse(vnet), header) else {
            self.large = packet;
            return false;
        };
        // It is there: it was read into.
        let Some(mut packet) = packet else { return false };
        packet.truncate(VLAN_LEN + header.wire_len);
        // There is that much: the room for a tag that was not needed.
        let _ = packet.pull(done.begin);
        take(done.frame(header, Bytes::Owned(packet)));
        true
    }

    /// `room` is [`VLAN_LEN`] bytes and then the frame. `None` if there is no frame to be given
    /// now: it was dropped, or is to be segmented and only taken in hand.
    fn finish(&mut self, room: &mut [u8], vnet: VnetHeader, header: &SlotHeader) -> Option<Done> {
        if self.ignore_outgoing && header.packet_type == PacketType::Outgoing {
            return None;
        }
        let frame = &mut room[VLAN_LEN..];
        let (start, offset) = (vnet.checksum_start, vnet.checksum_offset);
        if vnet.gso_type == GSO_NONE && vnet.needs_checksum {
            if !complete_checksum(frame, start, offset) {
                self.statistics.dropped_offload += 1;
                return None;
            }
            self.statistics.checksums_completed += 1;
        }
        let segments = match vnet.gso_type {
            GSO_NONE => Some(1),
            GSO_TCP_IPV4 | GSO_TCP_IPV6 if self.whole => {
                whole::complete(frame, vnet.gso_len, self.is_ethernet)
            }
            _ => None,
        };
        let begin = self.restore_tag(room, header.vlan);
        if let Some(segments) = segments {
            self.statistics.frames_whole += u64::from(segments > 1);
            return Some(Done { begin, segments });
        }
        match vnet.gso_type {
            GSO_TCP_IPV4 | GSO_TCP_IPV6 | GSO_UDP
                if self.segmenter.load(&room[begin..], vnet.gso_len, self.is_ethernet) =>
            {
                (self.timestamp_ns, self.packet_type) = (header.timestamp_ns, header.packet_type);
                self.statistics.frames_segmented += 1;
            }
            _ => self.statistics.dropped_offload += 1,
        }
        None
    }

    /// Puts the tag that the kernel took out back behind the two addresses; where the frame begins
    /// then.
    fn restore_tag(&mut self, room: &mut [u8], vlan: Option<(u16, u16)>) -> usize {
        const ADDRESSES_LEN: usize = 12;
        match vlan {
            Some((protocol, tag)) if self.is_ethernet && room.len() >= ADDRESSES_LEN + VLAN_LEN => {
                room.copy_within(VLAN_LEN..VLAN_LEN + ADDRESSES_LEN, 0);
                let field = &mut room[ADDRESSES_LEN..ADDRESSES_LEN + VLAN_LEN];
                field[..2].copy_from_slice(&protocol.to_be_bytes());
                field[2..].copy_from_slice(&tag.to_be_bytes());
                self.statistics.tags_restored += 1;
                0
            }
            _ => VLAN_LEN,
        }
    }
}

/// A frame that is finished.
struct Done {
    /// Where it begins in its room.
    begin: usize,
    /// Frames that it stands for.
    segments: u8,
}

impl Done {
    fn frame<'a>(&self, header: &SlotHeader, bytes: Bytes<'a>) -> Frame<'a> {
        let (timestamp_ns, packet_type) = (header.timestamp_ns, header.packet_type);
        Frame { bytes, timestamp_ns, packet_type, segments: self.segments }
    }
}

/// A packet as long as the longest frame, with room for a tag.
#[cold]
fn large_packet() -> Option<Packet> {
    let mut packet = Packet::new(&[])?;
    packet.put(VLAN_LEN + LARGE_FRAME_LEN).then_some(packet)
}

/// Finishes a checksum; its field, at `start + offset`, holds the sum of the pseudo-header: the
/// sum runs from `start` to the end of the frame. False, and nothing done, if the field is outside
/// the frame.
fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) -> bool {
    const UDP_CHECKSUM_AT: usize = 6;
    let at = start + offset;
    if at + 2 > frame.len() {
        return false;
    }
    let sum = Sum::ZERO.with(&frame[start..]);
    let is_udp = offset == UDP_CHECKSUM_AT;
    let checksum = if is_udp { sum.checksum_udp() } else { sum.checksum() };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_outside_the_frame_are_left_alone() {
        assert!(!complete_checksum(&mut [0; 10], 8, 1));
        assert!(!complete_checksum(&mut [], 0, 0));
        assert!(!complete_checksum(&mut [0; 10], 65_535, 65_535));
        let mut frame = [0, 0, 0x12, 0x34, 0, 0, 0xED, 0xCB];
        assert!(complete_checksum(&mut frame, 2, 2));
        assert_eq!(frame[4..6], [0, 0]);
        frame[4..6].fill(0);
        frame[7] = 0xCA;
        assert!(complete_checksum(&mut frame, 2, 2));
        assert_eq!(frame[4..6], [0, 1]);
    }

    #[test]
    fn a_udp_checksum_of_zero_is_sent_as_ones() {
        let mut frame = [0xFF, 0xFF, 0, 0, 0, 0, 0, 0];
        assert!(complete_checksum(&mut frame, 0, 6));
        assert_eq!(frame[6..], [0xFF, 0xFF]);
    }
}
