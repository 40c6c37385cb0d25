//! How long a packet is to those who count: without its link layer.

use thruway_packet::Packet;

/// Bytes of the IP packet, link layer and padding left out.
#[inline]
pub(super) fn ip_len(packet: &Packet) -> u64 {
    let len = packet.network().len();
    let told = match packet.network_head::<20>() {
        Some(head) if head[0] >> 4 == 4 => usize::from(u16::from_be_bytes([head[2], head[3]])),
        Some(head) => usize::from(u16::from_be_bytes([head[4], head[5]])) + 40,
        None => len,
    };
    // A length beyond the packet is no length.
    (if told <= len && told > 0 { told } else { len }) as u64
}
