//! Length of a packet for accounting: without its link layer.

use thruway_packet::Packet;

/// Bytes of the IP packet, link layer and padding left out.
#[inline]
pub(super) fn ip_len(packet: &Packet) -> u64 {
    let len = packet.network().len();
    let claimed = match packet.network_head::<20>() {
        Some(head) if head[0] >> 4 == 4 => usize::from(u16::from_be_bytes([head[2], head[3]])),
        Some(head) => usize::from(u16::from_be_bytes([head[4], head[5]])) + 40,
        None => len,
    };
    // A length beyond the packet is invalid.
    (if claimed <= len && claimed > 0 { claimed } else { len }) as u64
}
