//! The frames that packets of flows are made of.

use std::net::Ipv4Addr;

use thruway_packet::Packet;
use thruway_wire::checksum::{Sum, checksum_20};
use thruway_wire::tcp::flags;
use thruway_wire::{MacAddr, ip_protocol};

/// Shortest packet, as in Click: the least that Ethernet carries.
pub(super) const LENGTH_MIN: usize = 60;
/// Longest: with the largest IP packet.
pub(super) const LENGTH_MAX: usize = 65_535 + ETHER;
/// Bytes of an Ethernet header, and of an IPv4 header.
pub(super) const ETHER: usize = 14;
pub(super) const IP: usize = 20;
/// Time to live of the packets, as in Click.
const TTL: u8 = 250;

/// The format of a flow's packets, and its fate after its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// UDP; new random ports.
    Udp { checksum: bool },
    /// UDP; the next ports.
    UdpInOrder { checksum: bool },
    /// TCP from SYN to FIN; new random ports.
    Tcp,
}

/// Places of the packets of a TCP flow among its frames.
pub(super) const SYN: usize = 0;
pub(super) const DATA: usize = 1;
pub(super) const FIN: usize = 2;

/// The common part of all packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) len: usize,
    pub(super) kind: Kind,
    pub(super) src_ether: MacAddr,
    pub(super) dst_ether: MacAddr,
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
}

/// A packet with ports and transport checksum zero.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Sum over what the checksum covers, and where that stands in the transport header.
    sum: Option<(Sum, usize)>,
}

impl Plan {
    /// The frames of a flow's packets: one of UDP, three of TCP.
    pub(super) fn frames(&self) -> Vec<Frame> {
        match self.kind {
            Kind::Udp { checksum } | Kind::UdpInOrder { checksum } => {
                let mut header = [0; 8];
                header[4..6]
                    .copy_from_slice(&(self.len as u16 - (ETHER + IP) as u16).to_be_bytes());
                vec![self.frame(ip_protocol::UDP, &header, checksum.then_some(6))]
            }
            Kind::Tcp => [flags::SYN, flags::PSH | flags::ACK, flags::FIN]
                .iter()
                .map(|flags| {
                    let mut header = [0; 20];
                    // Header length in words, the flags, and the largest window.
                    header[12..16].copy_from_slice(&[5 << 4, *flags, 0xff, 0xff]);
                    self.frame(ip_protocol::TCP, &header, Some(16))
                })
                .collect(),
        }
    }

    fn frame(&self, protocol: u8, transport: &[u8], checksum_at: Option<usize>) -> Frame {
        let (ip_len, rest_len) = (self.len - ETHER, self.len - ETHER - IP);
        let mut bytes = Vec::with_capacity(self.len);
        bytes.extend(self.dst_ether.0);
        bytes.extend(self.src_ether.0);
        bytes.extend([8, 0]);
        // Lengths fit: LENGTH_MAX is that of the largest IP packet.
        let mut header = [0; IP];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(ip_len as u16).to_be_bytes());
        header[8] = TTL;
        header[9] = protocol;
        header[12..16].copy_from_slice(&self.src.octets());
        header[16..].copy_from_slice(&self.dst.octets());
        let check = checksum_20(&header);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        bytes.extend(header);
        bytes.extend(transport);
        bytes.resize(self.len, 0);
        let (src, dst) = (u32::from(self.src), u32::from(self.dst));
        // The payload is all zero and adds nothing.
        let sum = Sum::pseudo_v4(src, dst, protocol, rest_len).with(transport);
        Frame { bytes, sum: checksum_at.map(|at| (sum, at)) }
    }
}

impl Frame {
    /// Gives a copy of the frame its ports.
    pub(super) fn finish(&self, packet: &mut Packet, ports: [u8; 4]) {
        let rest = &mut packet.data_mut()[ETHER + IP..];
        rest[..4].copy_from_slice(&ports);
        if let Some((sum, at)) = self.sum {
            // For TCP a sum of zero, which UDP must not send, is as good as its other form.
            rest[at..at + 2].copy_from_slice(&sum.with(&ports).checksum_udp().to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_wire::checksum::checksum;

    fn plan(len: usize, kind: Kind) -> Plan {
        Plan {
            len,
            kind,
            src_ether: MacAddr([1; 6]),
            dst_ether: MacAddr([2; 6]),
            src: Ipv4Addr::new(1, 0, 0, 1),
            dst: Ipv4Addr::new(2, 0, 0, 2),
        }
    }

    #[test]
    fn frames_have_right_checksums() {
        for (kind, protocol) in [(Kind::Udp { checksum: true }, 17), (Kind::Tcp, 6)] {
            for len in [60, 61, 1500] {
                for frame in plan(len, kind).frames() {
                    let mut packet = Packet::new(&frame.bytes).unwrap();
                    frame.finish(&mut packet, [1, 2, 3, 4]);
                    let data = packet.data();
                    assert_eq!(data.len(), len);
                    assert_eq!(checksum(&data[14..34]), 0);
                    let rest = data.len() - 34;
                    let sum = Sum::pseudo_v4(0x0100_0001, 0x0200_0002, protocol, rest);
                    assert_eq!(sum.with(&data[34..]).checksum(), 0);
                }
            }
        }
        assert!(plan(60, Kind::Udp { checksum: false }).frames()[0].sum.is_none());
    }
}
