//! What is known of a packet besides its bytes, as one process passes it to another.

use crate::meta::{NO_HEADER, PacketKind};
use crate::packet::Packet;

/// Bytes of what is carried: three header positions relative to the packet's first byte (16 bits
/// each, little-endian; the least number for none), kind, a zero, annotations (28 bytes), a zero
/// word, time (64 bits).
pub const CARRIED_LEN: usize = 48;

/// Stands for a header that is not known.
const NONE: i16 = i16::MIN;

impl Packet {
    /// Header positions, kind, annotations and time.
    pub fn carried(&self) -> [u8; CARRIED_LEN] {
        let meta = self.meta();
        let relative = |mark: u16| match mark {
            NO_HEADER => NONE,
            at => i16::try_from(i64::from(at) - i64::from(meta.start)).unwrap_or(NONE),
        };
        let mut bytes = [0; CARRIED_LEN];
        for (to, mark) in bytes.chunks_exact_mut(2).zip([meta.l2, meta.l3, meta.l4]) {
            to.copy_from_slice(&relative(mark).to_le_bytes());
        }
        bytes[6] = self.kind() as u8;
        bytes[8..36].copy_from_slice(&meta.anno);
        bytes[40..].copy_from_slice(&meta.timestamp.to_le_bytes());
        bytes
    }

    /// Takes on what another process said of these bytes. Nothing of it is believed: a header
    /// outside of frame and packet is not known, a kind that does not exist is the usual one.
    pub fn set_carried(&mut self, bytes: &[u8; CARRIED_LEN]) {
        let end = (self.headroom() + self.len()) as i64;
        let meta = self.meta_mut();
        let absolute = |at: usize| {
            let relative = i16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let mark = i64::from(meta.start) + i64::from(relative);
            let is_known = relative != NONE && (0..=end).contains(&mark);
            u16::try_from(mark).ok().filter(|_| is_known).unwrap_or(NO_HEADER)
        };
        (meta.l2, meta.l3, meta.l4) = (absolute(0), absolute(2), absolute(4));
        meta.anno.copy_from_slice(&bytes[8..36]);
        let mut time = [0; 8];
        time.copy_from_slice(&bytes[40..]);
        meta.timestamp = i64::from_le_bytes(time);
        self.set_kind(PacketKind::of(bytes[6]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_arrives() {
        let mut packet = Packet::new(&[7; 60]).unwrap();
        packet.set_mac_offset(0);
        packet.set_network(14, 20);
        packet.set_dst_ip([1, 2, 3, 4]);
        packet.set_kind(PacketKind::Multicast);
        packet.set_timestamp(-5);
        assert!(packet.pull(14));
        let mut other = Packet::new(&[9; 46]).unwrap();
        assert!(other.push(3) && other.pull(3));
        other.set_carried(&packet.carried());
        assert_eq!(other.mac_offset(), Some(-14));
        assert_eq!(other.network_offset(), Some(0));
        assert_eq!(other.transport_offset(), Some(20));
        assert_eq!((other.dst_ip(), other.kind()), ([1, 2, 3, 4], PacketKind::Multicast));
        assert_eq!(other.timestamp(), -5);
        assert_eq!(other.data(), [9; 46]);
    }

    #[test]
    fn lies_do_no_harm() {
        for byte in [0x00, 0x7f, 0x80, 0xff] {
            let mut packet = Packet::new(&[7; 10]).unwrap();
            packet.set_carried(&[byte; CARRIED_LEN]);
            let _ = (packet.mac(), packet.network(), packet.transport(), packet.mac_bytes(14));
            assert_eq!(packet.data(), [7; 10]);
        }
    }
}
