//! The endpoints of a session, kept in its scratch until they are reported.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_element::StreamCursor;
use thruway_wire::flow::FiveTuple;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Addresses, ports and protocol, as the packets of the side that opened the session have them.
/// Zeros where no packet was seen.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(super) struct Parties {
    /// An IPv4 address is in the first four bytes.
    src: [u8; 16],
    dst: [u8; 16],
    /// In network order.
    src_port: [u8; 2],
    dst_port: [u8; 2],
    pub(super) protocol: u8,
    /// 4, 6; 0: nothing was seen.
    pub(super) version: u8,
    reserved: [u8; 2],
}

impl Parties {
    /// The endpoints of the packet under a cursor.
    pub(super) fn of(data: &mut StreamCursor<'_>) -> Parties {
        let begin = data.chunk().first_chunk::<4>().copied().unwrap_or_default();
        let parties = Parties::of_packet(data.headers(), begin).unwrap_or_default();
        if data.direction() == 0 { parties } else { parties.reversed() }
    }

    /// From the headers in front of a payload that begins with these bytes: ports, where the
    /// payload is that of IP.
    fn of_packet(headers: &[u8], begin: [u8; 4]) -> Option<Parties> {
        let ports = |transport: &[u8]| transport.first_chunk::<4>().copied().unwrap_or(begin);
        match headers.first()? >> 4 {
            4 => {
                let (header, _, transport) = Ipv4Header::parse_cut(headers).ok()?;
                let tuple = FiveTuple::of_ipv4(header, &ports(transport));
                let wide = |addr: u32| {
                    let mut wide = [0; 16];
                    wide[..4].copy_from_slice(&addr.to_be_bytes());
                    wide
                };
                Some(Parties::new(4, tuple, wide))
            }
            6 => {
                let (header, payload) = Ipv6Header::parse_cut(headers).ok()?;
                let mut upper = ipv6_ext::upper_layer(header.next_header(), payload).ok()?;
                let ports = ports(upper.bytes);
                upper.bytes = &ports;
                Some(Parties::new(6, FiveTuple::of_ipv6(header, &upper), |addr| addr))
            }
            _ => None,
        }
    }

    fn new<A>(version: u8, tuple: FiveTuple<A>, wide: fn(A) -> [u8; 16]) -> Parties {
        let FiveTuple { src, dst, src_port, dst_port, protocol } = tuple;
        let (src, dst) = (wide(src), wide(dst));
        let (src_port, dst_port) = (src_port.to_be_bytes(), dst_port.to_be_bytes());
        Parties { src, dst, src_port, dst_port, protocol, version, reserved: [0; 2] }
    }

    /// As the packets of the other side have them.
    pub(super) fn reversed(self) -> Parties {
        let Parties { src, dst, src_port, dst_port, .. } = self;
        Parties { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..self }
    }

    /// Source and destination port.
    pub(super) fn ports(&self) -> (u16, u16) {
        (u16::from_be_bytes(self.src_port), u16::from_be_bytes(self.dst_port))
    }

    /// Source and destination address, to be printed.
    pub(super) fn addrs(&self) -> (Addr, Addr) {
        let addr = |bytes| Addr { bytes, is_ipv6: self.version == 6 };
        (addr(self.src), addr(self.dst))
    }
}

/// An address of either version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addr {
    pub(super) bytes: [u8; 16],
    pub(super) is_ipv6: bool,
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.bytes;
        match self.is_ipv6 {
            true => Ipv6Addr::from(self.bytes).fmt(f),
            false => Ipv4Addr::new(a, b, c, d).fmt(f),
        }
    }
}

/// The CSV columns of the endpoints.
pub(super) const CSV_COLUMNS: &str = "src,dst,protocol,src_port,dst_port";

/// [`CSV_COLUMNS`].
impl fmt::Display for Parties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((src, dst), (src_port, dst_port)) = (self.addrs(), self.ports());
        write!(f, "{src},{dst},{},{src_port},{dst_port}", self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_who() {
        let mut ip = vec![0x45, 0, 0, 44, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let of_ip = Parties::of_packet(&ip, [0, 80, 1, 0]).unwrap();
        assert_eq!(of_ip.to_string(), "10.0.0.1,10.0.0.2,6,80,256");
        ip.extend([0, 80, 1, 0, 0, 0, 0, 0]);
        let of_tcp = Parties::of_packet(&ip, *b"data").unwrap();
        assert_eq!(of_tcp, of_ip);
        assert_eq!(of_tcp.reversed().to_string(), "10.0.0.2,10.0.0.1,6,256,80");
        let mut ip6 = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        ip6.extend(Ipv6Addr::LOCALHOST.octets());
        ip6.extend(Ipv6Addr::UNSPECIFIED.octets());
        ip6.extend([0, 53, 0, 54, 0, 8, 0, 0]);
        assert_eq!(Parties::of_packet(&ip6, [0; 4]).unwrap().to_string(), "::1,::,17,53,54");
        assert_eq!(Parties::of_packet(&ip6[..20], [0; 4]), None);
        assert_eq!(Parties::of_packet(&[], [0; 4]), None);
    }
}
