//! Packets with what the host knows of them, for functions that are elements of Thruway.
//!
//! ```text
//! 0    header positions, kind, annotations, time (thruway_packet::CARRIED_LEN bytes)
//! 48   the bytes before the packet, as far as there are any; then zeros come first
//! 128  the packet
//! ```

use thruway_packet::{CARRIED_LEN, Packet, carried_bytes, carried_words};

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
    *known = carried_bytes(&packet.carried());
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

/// Whether bytes are what [`pack_into`] would write.
pub(super) fn is_packed(packet: &mut Packet, bytes: &[u8]) -> bool {
    if bytes.len() != packed_len(packet) {
        return false;
    }
    let Some((known, rest)) = bytes.split_first_chunk::<CARRIED_LEN>() else { return false };
    if carried_words(known) != packet.carried() || !packet.unpull(ROOM_LEN) {
        return false;
    }
    let is_same = rest == packet.data();
    // Just given back.
    let _ = packet.pull(ROOM_LEN);
    is_same
}

/// The bytes are too few: whoever wrote them is not to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Short;

/// A packet of what was written; none when packet memory is used up.
pub(super) fn unpacked(bytes: &[u8]) -> Result<Option<Packet>, Short> {
    let (known, rest) = bytes.split_first_chunk::<CARRIED_LEN>().ok_or(Short)?;
    if rest.len() < ROOM_LEN {
        return Err(Short);
    }
    let mut packet = Packet::new(rest);
    if let Some(packet) = &mut packet {
        // It has that many bytes.
        let _ = packet.pull(ROOM_LEN);
        packet.set_carried(&carried_words(known));
    }
    Ok(packet)
}

/// Makes a packet what was written. False when packet memory is used up, or the bytes are too few.
/// `copy` fetches the bytes, `len` of them: those behind the first few, as many as it is given room
/// for.
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
    packet.set_carried(&carried_words(&known));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(bytes: &[u8], packet: &mut Packet) -> bool {
        let copy = |skipped: usize, to: &mut [u8]| {
            to.copy_from_slice(&bytes[skipped..skipped + to.len()]);
        };
        unpack_from(bytes.len(), packet, copy)
    }

    /// What is made of these bytes, which is the same whether a packet is there already or not.
    fn both(bytes: &[u8]) -> Packet {
        let mut there = Packet::new(&[1; 60]).unwrap();
        assert!(unpack(bytes, &mut there));
        let mut packed = Vec::new();
        pack(&mut there, &mut packed);
        assert_eq!(packed, bytes);
        assert!(is_packed(&mut there, bytes));
        let mut made = unpacked(bytes).unwrap().unwrap();
        assert!(is_packed(&mut made, bytes));
        made
    }

    #[test]
    fn what_was_changed_is_not_as_it_was_packed() {
        let mut packet = Packet::new(&[7; 60]).unwrap();
        let mut bytes = Vec::new();
        pack(&mut packet, &mut bytes);
        let change: [fn(&mut Packet); 6] = [
            |packet| packet.data_mut()[59] = 8,
            |packet| assert!(packet.unpull(80) && packet.pull(80), "room"),
            |packet| packet.set_anno_number(thruway_packet::Anno::PAINT, 3),
            |packet| packet.set_network(0, 20),
            |packet| assert!(packet.pull(1), "it is longer"),
            |packet| assert!(packet.put(1), "there is room"),
        ];
        for (nth, change) in change.into_iter().enumerate() {
            let mut packet = unpacked(&bytes).unwrap().unwrap();
            change(&mut packet);
            assert_eq!(is_packed(&mut packet, &bytes), nth == 1, "{nth}");
        }
        let mut packet = unpacked(&bytes).unwrap().unwrap();
        assert!(packet.unpull(3));
        packet.data_mut()[0] = 1;
        assert!(packet.pull(3) && !is_packed(&mut packet, &bytes), "what stands before it");
    }

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
        let mut other = both(&bytes);
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
            assert_eq!(both(&bytes).data(), packet.data());
            let mut other = Packet::new(&[1; 60]).unwrap();
            assert!(!unpack(&bytes[..PREFIX_LEN - 1], &mut other));
            assert_eq!(unpacked(&bytes[..PREFIX_LEN - 1]).err(), Some(Short));
        }
    }
}
