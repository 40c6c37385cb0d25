//! Packets with what the host knows of them, for functions that are elements of Thruway.
//!
//! ```text
//! 0    header positions, kind, annotations, time (thruway_packet::CARRIED_LEN bytes)
//! 48   the bytes before the packet, as far as there are any; then zeros come first
//! 128  the packet
//! ```

use thruway_packet::{CARRIED_LEN, Packet};

/// Bytes before the packet.
pub(super) const PREFIX_LEN: usize = 128;
/// Bytes of head room that go along: headers that were pulled off can be given back.
pub(super) const ROOM_LEN: usize = PREFIX_LEN - CARRIED_LEN;

/// Writes a packet and what is known of it; the text becomes as long as they are.
pub(super) fn pack(packet: &mut Packet, to: &mut Vec<u8>) {
    to.resize(packed_len(packet), 0);
    pack_into(packet, to);
}

/// Bytes that a packet takes with what is known of it.
pub(super) fn packed_len(packet: &Packet) -> usize {
    PREFIX_LEN + packet.len()
}

/// Writes a packet and what is known of it to where [`packed_len`] bytes are.
pub(super) fn pack_into(packet: &mut Packet, to: &mut [u8]) {
    let Some((known, rest)) = to.split_first_chunk_mut::<CARRIED_LEN>() else { return };
    *known = packet.carried();
    let room = packet.headroom().min(ROOM_LEN);
    // Within the head room: both succeed.
    let has_room = packet.unpull(room);
    let (absent, there) = rest.split_at_mut(rest.len() - packet.len());
    absent.fill(0);
    there.copy_from_slice(packet.data());
    if has_room {
        let _ = packet.pull(room);
    }
}

/// Makes a packet what was written. False when packet memory is used up, or the bytes are too few:
/// whoever wrote them is not to be believed.
#[must_use]
pub(super) fn unpack(bytes: &[u8], packet: &mut Packet) -> bool {
    let copy = |skipped: usize, to: &mut [u8]| {
        to.copy_from_slice(&bytes[skipped..skipped + to.len()]);
    };
    unpack_from(bytes.len(), packet, copy)
}

/// The same of so many bytes that `copy` fetches: those behind the first few, as many as it is
/// given room for.
#[must_use]
pub(super) fn unpack_from(
    len: usize,
    packet: &mut Packet,
    mut copy: impl FnMut(usize, &mut [u8]),
) -> bool {
    if len < PREFIX_LEN {
        return false;
    }
    let mut known = [0; CARRIED_LEN];
    copy(0, &mut known);
    let rest_len = len - CARRIED_LEN;
    packet.truncate(0);
    if !packet.push(ROOM_LEN) {
        return false;
    }
    packet.truncate(rest_len);
    if packet.len() < rest_len && !packet.put(rest_len - packet.len()) {
        return false;
    }
    copy(CARRIED_LEN, packet.data_mut());
    // It has that many bytes.
    let _ = packet.pull(ROOM_LEN);
    packet.set_carried(&known);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_arrives_with_all_that_is_known() {
        let mut packet = Packet::new(&(0..200).collect::<Vec<u8>>()).unwrap();
        packet.set_mac_offset(0);
        packet.set_network(14, 20);
        packet.set_anno_number(thruway_packet::Anno::PAINT, 5);
        assert!(packet.pull(14));
        let mut bytes = Vec::new();
        pack(&mut packet, &mut bytes);
        assert_eq!(bytes.len(), PREFIX_LEN + 186);
        assert_eq!(packet.len(), 186);
        let mut other = Packet::new(&[]).unwrap();
        assert!(unpack(&bytes, &mut other));
        assert_eq!(other.data(), packet.data());
        assert_eq!((other.paint(), other.network_offset()), (5, Some(0)));
        assert_eq!(other.mac_offset(), Some(-14));
        assert!(other.unpull(14));
        assert_eq!(other.data()[..14], (0..14).collect::<Vec<u8>>());
    }

    #[test]
    fn empty_and_long_packets_arrive_and_short_texts_do_not() {
        for len in [0, 1, 1514, 9000] {
            let mut packet = Packet::zeroed(len).unwrap();
            let mut bytes = Vec::new();
            pack(&mut packet, &mut bytes);
            let mut other = Packet::new(&[1; 60]).unwrap();
            assert!(unpack(&bytes, &mut other));
            assert_eq!(other.data(), packet.data());
            assert!(!unpack(&bytes[..PREFIX_LEN - 1], &mut other));
        }
    }
}
