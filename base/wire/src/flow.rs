//! The five-tuple of a packet: addresses, protocol and ports.

use crate::{ip_protocol, ipv4::Ipv4Header, ipv6::Ipv6Header, ipv6_ext::UpperLayer};

/// Addresses `A` (`u32` for IPv4, `[u8; 16]` for IPv6), ports and protocol. Ports are 0 where there
/// are none: other protocols, later fragments, cut packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiveTuple<A> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol, see [`ip_protocol`].
    pub protocol: u8,
}

impl<A> FiveTuple<A> {
    /// That of the packets in the other direction.
    #[must_use]
    #[inline]
    pub fn reversed(self) -> Self {
        let Self { src, dst, src_port, dst_port, protocol } = self;
        Self { src: dst, dst: src, src_port: dst_port, dst_port: src_port, protocol }
    }
}

impl FiveTuple<u32> {
    /// Of an IPv4 packet, from its header and payload.
    #[must_use]
    #[inline]
    pub fn of_ipv4(header: &Ipv4Header, payload: &[u8]) -> Self {
        let (src_port, dst_port) = if header.has_ports() { ports(payload) } else { (0, 0) };
        let (src, dst) = (header.src(), header.dst());
        Self { src, dst, src_port, dst_port, protocol: header.protocol() }
    }
}

impl FiveTuple<[u8; 16]> {
    /// For an IPv6 packet, from its header and the result of [`crate::ipv6_ext::upper_layer`].
    #[must_use]
    #[inline]
    pub fn of_ipv6(header: &Ipv6Header, upper: &UpperLayer<'_>) -> Self {
        let has_ports = upper.has_header() && ip_protocol::has_ports(upper.protocol);
        let (src_port, dst_port) = if has_ports { ports(upper.bytes) } else { (0, 0) };
        let (src, dst) = (header.src(), header.dst());
        Self { src, dst, src_port, dst_port, protocol: upper.protocol }
    }
}

/// Source and destination port at the front of a segment, zeros when it is cut.
#[inline]
fn ports(segment: &[u8]) -> (u16, u16) {
    match *segment {
        [a, b, c, d, ..] => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6_ext::upper_layer;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn ipv4() {
        let (src, dst) = (Ipv4Addr::from_bits(1), Ipv4Addr::from_bits(2));
        let mut header = Ipv4Header::new(ip_protocol::TCP, src, dst, 4).unwrap();
        let tuple = FiveTuple::of_ipv4(&header, &[0, 80, 1, 0]);
        let wanted = FiveTuple { src: 1, dst: 2, src_port: 80, dst_port: 256, protocol: 6 };
        assert_eq!(tuple, wanted);
        assert_eq!(tuple.reversed().reversed(), tuple);
        assert_eq!(tuple.reversed().src_port, 256);
        assert_eq!(FiveTuple::of_ipv4(&header, &[0, 80, 1]).src_port, 0);
        header.set_flags_offset(1);
        assert_eq!(FiveTuple::of_ipv4(&header, &[0, 80, 1, 0]).src_port, 0);
    }

    #[test]
    fn ipv6() {
        let bytes = [17, 0, 1, 4, 0, 0, 0, 0, 0, 53, 0, 54];
        let addr = Ipv6Addr::LOCALHOST;
        let header = Ipv6Header::new(ip_protocol::HOP_BY_HOP, addr, addr, 12).unwrap();
        let upper = upper_layer(ip_protocol::HOP_BY_HOP, &bytes).unwrap();
        let tuple = FiveTuple::of_ipv6(&header, &upper);
        assert_eq!((tuple.src_port, tuple.dst_port, tuple.protocol), (53, 54, 17));
    }
}
