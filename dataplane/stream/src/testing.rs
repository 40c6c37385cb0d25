//! Packets for tests.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;

use crate::segment::{Parts, finish};

/// A TCP segment from 10.0.0.1:1000 to 10.0.0.2:80 over Ethernet, marked as a classifier marks it.
pub fn segment(seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Packet {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    with_tcp(frame, 20, (seq, ack, flags), payload)
}

/// The same over IPv6.
pub fn segment6(seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Packet {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 0, 6, 64]);
    frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    with_tcp(frame, 40, (seq, ack, flags), payload)
}

fn with_tcp(
    mut frame: Vec<u8>,
    network_len: usize,
    (seq, ack, flags): (u32, u32, u8),
    payload: &[u8],
) -> Packet {
    frame.extend(1000u16.to_be_bytes());
    frame.extend(80u16.to_be_bytes());
    frame.extend(seq.to_be_bytes());
    frame.extend(ack.to_be_bytes());
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(payload);
    let mut packet = Packet::new(&frame).expect("packet memory");
    packet.set_mac_offset(0);
    packet.set_network(14, network_len);
    let transport = 14 + network_len;
    let (payload, end) = (transport + 20, packet.len());
    let parts = Parts { network: 14, transport, payload, end, is_ipv6: network_len == 40 };
    assert!(finish(&mut packet, &parts, ip_protocol::TCP));
    packet
}
