//! A TCP segment (a UDP datagram, an IP packet) in place: positions of its parts, cutting,
//! splitting, and correcting lengths and checksums.

use std::ops::Range;

use thruway_packet::Packet;
use thruway_wire::checksum::Sum;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::TcpHeader;
use zerocopy::FromBytes;

use crate::splice::splice;

/// Why a packet is no segment that can be worked on; the name is that of a drop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No IP header is marked, or it is truncated, or its length exceeds the packet's.
    #[error("bad-ip")]
    Ip,
    /// The transport header is cut short, or its length field is wrong.
    #[error("bad-transport")]
    Transport,
    /// The checksum is wrong.
    #[error("bad-checksum")]
    Checksum,
}

/// Where the parts of a packet are, in `data()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// First byte of the IP header.
    pub network: usize,
    /// First byte of the transport header.
    pub transport: usize,
    /// First byte of the transport's payload.
    pub payload: usize,
    /// Behind the last byte of the IP packet; what follows is padding.
    pub end: usize,
    /// Version of IP.
    pub is_ipv6: bool,
}

impl Parts {
    /// The parts of an IP packet with marked network and transport headers; the payload follows the
    /// IP header and its extensions.
    ///
    /// # Errors
    /// [`Malformed::Ip`].
    #[inline]
    pub fn of_ip(packet: &Packet) -> Result<Parts, Malformed> {
        let (network, transport) =
            packet.network_offset().zip(packet.transport_offset()).ok_or(Malformed::Ip)?;
        let header = packet.data().get(network..).ok_or(Malformed::Ip)?;
        let length = |at: usize| match header.get(at..at + 2) {
            Some(&[a, b]) => Ok(usize::from(u16::from_be_bytes([a, b]))),
            _ => Err(Malformed::Ip),
        };
        let is_ipv6 = header.first().ok_or(Malformed::Ip)? >> 4 == 6;
        let end = network + if is_ipv6 { 40 + length(4)? } else { length(2)? };
        if transport <= network || end < transport || end > packet.len() {
            return Err(Malformed::Ip);
        }
        Ok(Parts { network, transport, payload: transport, end, is_ipv6 })
    }

    /// Of a TCP segment.
    ///
    /// # Errors
    /// [`Malformed`].
    #[inline]
    pub fn of_tcp(packet: &Packet) -> Result<Parts, Malformed> {
        let parts = Parts::of_ip(packet)?;
        let byte = packet.data().get(parts.transport + 12).ok_or(Malformed::Transport)?;
        let header = usize::from(byte >> 4) * 4;
        let payload = parts.transport + header;
        if header < 20 || payload > parts.end {
            return Err(Malformed::Transport);
        }
        Ok(Parts { payload, ..parts })
    }

    /// Of a UDP datagram. Bytes beyond its header's length are cut off by [`trim`](Self::trim) with
    /// the padding.
    /// # Errors
    /// [`Malformed`].
    #[inline]
    pub fn of_udp(packet: &Packet) -> Result<Parts, Malformed> {
        let parts = Parts::of_ip(packet)?;
        let payload = parts.transport + 8;
        let length = packet.data().get(parts.transport + 4..parts.transport + 6);
        let Some(&[a, b]) = length else { return Err(Malformed::Transport) };
        let end = parts.transport + usize::from(u16::from_be_bytes([a, b]));
        if payload > end || end != parts.end {
            return Err(Malformed::Transport);
        }
        Ok(Parts { payload, ..parts })
    }

    /// The parts of an IP packet that was valid before its content was changed: length fields may
    /// be wrong by now, and padding is cut off. The payload follows the IP header and its
    /// extensions.
    #[inline]
    pub fn of_changed(packet: &Packet) -> Option<Parts> {
        let (network, transport) = packet.network_offset().zip(packet.transport_offset())?;
        let (is_ipv6, end) = (packet.data().get(network)? >> 4 == 6, packet.len());
        let is_sound = network < transport && transport <= end;
        is_sound.then_some(Parts { network, transport, payload: transport, end, is_ipv6 })
    }

    /// The same of a TCP segment.
    #[inline]
    pub fn of_changed_tcp(packet: &Packet) -> Option<Parts> {
        let parts = Parts::of_changed(packet)?;
        let header = usize::from(packet.data().get(parts.transport + 12)? >> 4) * 4;
        let payload = parts.transport + header;
        (header >= 20 && payload <= parts.end).then_some(Parts { payload, ..parts })
    }

    /// Bytes of payload.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.end - self.payload
    }

    /// Cuts padding off.
    #[inline]
    pub fn trim(&self, packet: &mut Packet) {
        packet.truncate(self.end);
    }

    /// The sum of the pseudo header for `len` bytes of transport header and payload.
    #[inline]
    fn pseudo(&self, data: &[u8], protocol: u8, len: usize) -> Sum {
        let at = self.network;
        if self.is_ipv6 {
            let address = |from: usize| {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&data[at + from..at + from + 16]);
                bytes
            };
            return Sum::pseudo_v6(&address(8), &address(24), protocol, len);
        }
        let word = |from: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&data[at + from..at + from + 4]);
            u32::from_be_bytes(bytes)
        };
        Sum::pseudo_v4(word(12), word(16), protocol, len)
    }

    /// Whether the checksum of the IP header is right; IPv6 has none.
    ///
    /// # Errors
    /// [`Malformed::Checksum`].
    #[inline]
    pub fn verify_header(&self, packet: &Packet) -> Result<(), Malformed> {
        let header = &packet.data()[self.network..self.transport];
        if self.is_ipv6 || thruway_wire::checksum::checksum(header) == 0 {
            Ok(())
        } else {
            Err(Malformed::Checksum)
        }
    }

    /// Whether the checksum over transport header and payload is right.
    #[inline]
    pub fn verify(&self, packet: &Packet, protocol: u8) -> Result<(), Malformed> {
        let data = packet.data();
        let segment = &data[self.transport..self.end];
        let sum = self.pseudo(data, protocol, segment.len()).with(segment);
        if sum.checksum() == 0 { Ok(()) } else { Err(Malformed::Checksum) }
    }
}

/// The next header of the IP header: the transport protocol, or an extension of IPv6.
#[inline]
pub fn protocol(packet: &Packet) -> Option<u8> {
    let header = packet.network();
    header.get(if header.first()? >> 4 == 6 { 6 } else { 9 }).copied()
}

/// The fixed part of a segment's TCP header; `Parts::of_tcp` has verified that it exists.
#[inline]
pub fn tcp<'a>(packet: &'a Packet, parts: &Parts) -> Option<&'a TcpHeader> {
    TcpHeader::ref_from_prefix(packet.data().get(parts.transport..)?).ok().map(|(head, _)| head)
}

/// The same, to be changed.
#[inline]
pub fn tcp_mut<'a>(packet: &'a mut Packet, parts: &Parts) -> Option<&'a mut TcpHeader> {
    let data = packet.data_mut().get_mut(parts.transport..)?;
    TcpHeader::mut_from_prefix(data).ok().map(|(head, _)| head)
}

/// Takes the first `n` bytes of the payload away; the sequence number is the caller's matter, so
/// are lengths and checksums.
pub fn cut_front(packet: &mut Packet, parts: &mut Parts, n: usize) {
    let (n, before) = (n.min(parts.payload_len()), parts.payload_len());
    if !splice(packet, parts.payload, n, &[]) {
        return;
    }
    parts.end -= n;
    recount(packet, before, parts.payload_len());
}

/// Takes the last `n` bytes of the payload (and padding) away; lengths and checksums are the
/// caller's matter.
pub fn cut_back(packet: &mut Packet, parts: &mut Parts, n: usize) {
    let before = parts.payload_len();
    parts.end -= n.min(before);
    packet.truncate(parts.end);
    recount(packet, before, parts.payload_len());
}

/// Makes a packet with a shortened payload represent fewer segments, each as long as before.
#[inline]
fn recount(packet: &mut Packet, before: usize, after: usize) {
    let count = packet.segments();
    if count > 1 {
        let each = before.div_ceil(count).max(1);
        // No more than before: they can be counted.
        let _ = packet.set_segments(after.div_ceil(each));
    }
}

/// Splits a packet: its first `keep` bytes of payload stay, a second one has the headers and the
/// rest. `None`, and nothing changed, when memory is used up. Sequence numbers, flags, lengths and
/// checksums are the caller's matter.
#[must_use]
pub fn split(packet: &mut Packet, parts: &mut Parts, keep: usize) -> Option<(Packet, Parts)> {
    let (keep, before) = (keep.min(parts.payload_len()), parts.payload_len());
    let whole = packet.len();
    // The first part is the one that is copied: of a long packet it fits into a small frame.
    packet.truncate(parts.payload + keep);
    let first = compact(packet, packet.len());
    // The bytes cut off are still there.
    if !packet.put(whole - packet.len()) {
        return None;
    }
    let mut second = std::mem::replace(packet, first?);
    recount(packet, before, keep);
    let mut behind = *parts;
    cut_front(&mut second, &mut behind, keep);
    parts.end = packet.len();
    Some((second, behind))
}

/// A copy of a packet with a range of its payload; `None` when memory is used up or the range is
/// not within the payload. Sequence number, flags, lengths and checksums are the caller's matter.
#[must_use]
pub fn excerpt(packet: &Packet, parts: &Parts, range: Range<usize>) -> Option<(Packet, Parts)> {
    let payload = packet.data().get(parts.payload..parts.end)?.get(range)?;
    let mut copy = compact(packet, parts.payload)?;
    if !copy.put(payload.len()) {
        return None;
    }
    copy.data_mut()[parts.payload..].copy_from_slice(payload);
    recount(&mut copy, parts.payload_len(), payload.len());
    let parts = Parts { end: copy.len(), ..*parts };
    Some((copy, parts))
}

/// A copy of a packet's first bytes, with no more room in front than packets usually have.
fn compact(packet: &Packet, len: usize) -> Option<Packet> {
    let mut copy = Packet::new(packet.data().get(..len)?)?;
    copy.copy_annotations(packet);
    if let Some(mac) = packet.mac_offset().and_then(|at| usize::try_from(at).ok()) {
        copy.set_mac_offset(mac);
    }
    if let Some((network, transport)) = packet.network_offset().zip(packet.transport_offset()) {
        copy.set_network(network, transport.checked_sub(network)?);
    }
    Some(copy)
}

/// Corrects the length fields and checksums of a packet after a change of its payload. Bytes beyond
/// `parts.end` must have been cut off. False when it exceeds the range of the length fields.
#[must_use]
pub fn finish(packet: &mut Packet, parts: &Parts, protocol: u8) -> bool {
    let parts = Parts { end: packet.len(), ..*parts };
    set_ip_length(packet, &parts) && fill_checksum(packet, &parts, protocol)
}

/// Sets the length field of the IP header, and its checksum where it has one.
#[must_use]
pub fn set_ip_length(packet: &mut Packet, parts: &Parts) -> bool {
    let (from, base) = if parts.is_ipv6 { (4, 40) } else { (2, 0) };
    let Ok(length) = u16::try_from(parts.end - parts.network - base) else { return false };
    let header = &mut packet.data_mut()[parts.network..parts.transport];
    header[from..from + 2].copy_from_slice(&length.to_be_bytes());
    if !parts.is_ipv6 {
        let header_len = usize::from(header[0] & 0xf) * 4;
        let Some(header) = header.get_mut(..header_len.max(20)) else { return false };
        header[10..12].fill(0);
        let sum = thruway_wire::checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

/// Computes the transport's checksum (and UDP's length field).
#[must_use]
fn fill_checksum(packet: &mut Packet, parts: &Parts, protocol: u8) -> bool {
    let len = parts.end - parts.transport;
    let pseudo = parts.pseudo(packet.data(), protocol, len);
    let segment = &mut packet.data_mut()[parts.transport..parts.end];
    let at = match protocol {
        ip_protocol::TCP => 16,
        ip_protocol::UDP => 6,
        _ => return true,
    };
    if protocol == ip_protocol::UDP {
        let Ok(length) = u16::try_from(len) else { return false };
        segment[4..6].copy_from_slice(&length.to_be_bytes());
    }
    segment[at..at + 2].fill(0);
    let sum = pseudo.with(segment);
    let value = if at == 6 { sum.checksum_udp() } else { sum.checksum() };
    segment[at..at + 2].copy_from_slice(&value.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use thruway_packet::SMALL_FRAME;

    use super::*;
    use crate::testing::{segment, segment6};

    #[test]
    fn parts_are_found() {
        for mut packet in [segment(7, 9, 0x18, b"payload"), segment6(7, 9, 0x18, b"payload")] {
            assert!(packet.put(5));
            let parts = Parts::of_tcp(&packet).unwrap();
            assert_eq!(&packet.data()[parts.payload..parts.end], b"payload");
            assert_eq!(tcp(&packet, &parts).unwrap().seq(), 7);
            assert_eq!(parts.verify(&packet, ip_protocol::TCP), Ok(()));
            packet.data_mut()[parts.payload] ^= 1;
            assert_eq!(parts.verify(&packet, ip_protocol::TCP), Err(Malformed::Checksum));
        }
    }

    #[test]
    fn short_ones_are_refused() {
        let whole = segment(7, 9, 0x18, b"payload");
        for len in 0..whole.len() {
            let mut cut = whole.duplicate().unwrap();
            cut.truncate(len);
            assert!(Parts::of_tcp(&cut).is_err());
        }
    }

    #[test]
    fn parts_are_found_whatever_lengths_say() {
        for mut packet in [segment(7, 9, 0x18, b"payload"), segment6(7, 9, 0x18, b"payload")] {
            assert_eq!(protocol(&packet), Some(ip_protocol::TCP));
            let parts = Parts::of_tcp(&packet).unwrap();
            assert_eq!(Parts::of_changed_tcp(&packet), Some(parts));
            assert!(packet.put(5));
            let longer = Parts { end: parts.end + 5, ..parts };
            assert_eq!(Parts::of_changed_tcp(&packet), Some(longer));
            let all = Parts { payload: parts.transport, ..longer };
            assert_eq!(Parts::of_changed(&packet), Some(all));
            packet.truncate(parts.payload - 1);
            assert_eq!(Parts::of_changed_tcp(&packet), None);
            packet.truncate(parts.transport - 1);
            assert_eq!(Parts::of_changed(&packet), None);
        }
    }

    #[test]
    fn parts_of_a_long_packet_are_in_small_frames() {
        let mut rest = segment(7, 9, 0x18, &[1; 5000]);
        let mut behind = Parts::of_tcp(&rest).unwrap();
        for _ in 0..3 {
            let (second, parts) = split(&mut rest, &mut behind, 1000).unwrap();
            let first = std::mem::replace(&mut rest, second);
            assert!(first.headroom() + first.len() + first.tailroom() <= SMALL_FRAME);
            assert_eq!((first.len(), rest.len()), (1054, parts.end));
            behind = parts;
        }
        assert_eq!(behind.payload_len(), 2000);
    }

    #[test]
    fn cut_split_and_finished_packets_are_right() {
        for mut packet in
            [segment(7, 9, 0x18, b"some payload"), segment6(7, 9, 0x18, b"some payload")]
        {
            let mut parts = Parts::of_tcp(&packet).unwrap();
            cut_front(&mut packet, &mut parts, 2);
            cut_back(&mut packet, &mut parts, 1);
            let (mut second, behind) = split(&mut packet, &mut parts, 4).unwrap();
            for (packet, parts, want) in
                [(&mut packet, parts, &b"me p"[..]), (&mut second, behind, b"ayloa")]
            {
                assert!(finish(packet, &parts, ip_protocol::TCP));
                let parts = Parts::of_tcp(packet).unwrap();
                assert_eq!(&packet.data()[parts.payload..parts.end], want);
                assert_eq!(parts.verify(packet, ip_protocol::TCP), Ok(()));
                assert_eq!(packet.network_offset(), Some(14));
                if !parts.is_ipv6 {
                    assert_eq!(thruway_wire::checksum::checksum(&packet.network()[..20]), 0);
                }
            }
        }
    }
}
