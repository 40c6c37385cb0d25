//! ARP for IPv4 over Ethernet (RFC 826).

use crate::ethernet::ethertype;
use crate::{Defect, Extent, Header, Layer, MacAddr, ParseError};
use core::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Hardware type of Ethernet (IANA "ARP Parameters").
pub const HARDWARE_ETHERNET: u16 = 1;
/// Operation: request for the hardware address of a protocol address.
pub const REQUEST: u16 = 1;
/// Operation: I have.
pub const REPLY: u16 = 2;

/// An ARP message, 28 bytes. RFC 826 calls the addresses ar$sha, ar$spa, ar$tha, ar$tpa.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ArpPacket {
    hardware: U16,
    protocol: U16,
    hardware_len: u8,
    protocol_len: u8,
    operation: U16,
    sender_mac: MacAddr,
    sender_ip: U32,
    target_mac: MacAddr,
    target_ip: U32,
}

impl Header for ArpPacket {
    const LAYER: Layer = Layer::Arp;

    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let fields = [
            ("hardware type", self.hardware.get(), HARDWARE_ETHERNET),
            ("protocol type", self.protocol.get(), ethertype::IPV4),
            ("hardware address length", u16::from(self.hardware_len), 6),
            ("protocol address length", u16::from(self.protocol_len), 4),
        ];
        for (name, value, wanted) in fields {
            if value != wanted {
                let defect = Defect::BadField { name, value: u32::from(value) };
                return Err(ParseError::new(Layer::Arp, defect));
            }
        }
        Ok(Extent { header_len: Self::LEN, end: available })
    }
}

impl ArpPacket {
    /// A message; `sender` and `target` are an Ethernet and an IPv4 address each.
    #[must_use]
    pub fn new(operation: u16, sender: (MacAddr, Ipv4Addr), target: (MacAddr, Ipv4Addr)) -> Self {
        Self {
            hardware: U16::new(HARDWARE_ETHERNET),
            protocol: U16::new(ethertype::IPV4),
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::new(operation),
            sender_mac: sender.0,
            sender_ip: U32::new(sender.1.to_bits()),
            target_mac: target.0,
            target_ip: U32::new(target.1.to_bits()),
        }
    }

    /// A request for the hardware address of `wanted`, from `sender_ip` at `sender_mac`.
    #[must_use]
    pub fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, wanted: Ipv4Addr) -> Self {
        Self::new(REQUEST, (sender_mac, sender_ip), (MacAddr::ZERO, wanted))
    }

    /// The answer to this request: the address asked for is at `mac`.
    #[must_use]
    pub fn reply_from(&self, mac: MacAddr) -> Self {
        Self::new(REPLY, (mac, self.target_addr()), (self.sender_mac, self.sender_addr()))
    }

    accessors! {
        /// [`REQUEST`], [`REPLY`] or another of IANA's.
        operation, set_operation: u16;
        /// Ethernet address of the sender.
        sender_mac, set_sender_mac: MacAddr;
        /// IPv4 address of the sender.
        sender_ip, set_sender_ip: u32;
        /// Ethernet address of the target; without meaning in a request.
        target_mac, set_target_mac: MacAddr;
        /// IPv4 address of the target.
        target_ip, set_target_ip: u32;
    }

    /// IPv4 address of the sender.
    #[must_use]
    #[inline]
    pub fn sender_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.sender_ip())
    }

    /// IPv4 address of the target.
    #[must_use]
    #[inline]
    pub fn target_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.target_ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_and_reply() {
        let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let (ip_a, ip_b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut bytes = [0; 46];
        ArpPacket::request(a, ip_a, ip_b).emit(&mut bytes).unwrap();
        assert_eq!(bytes[..8], [0, 1, 8, 0, 6, 4, 0, 1]);
        let (request, padding) = ArpPacket::parse(&bytes).unwrap();
        assert_eq!((request.operation(), padding.len()), (REQUEST, 18));
        let reply = request.reply_from(b);
        assert_eq!(reply, ArpPacket::new(REPLY, (b, ip_b), (a, ip_a)));
    }

    #[test]
    fn other_kinds_are_refused() {
        let good = ArpPacket::request(MacAddr::ZERO, [1, 2, 3, 4].into(), [5, 6, 7, 8].into());
        for offset in [0, 1, 2, 3, 4, 5] {
            let mut bytes = [0; 28];
            good.emit(&mut bytes).unwrap();
            bytes[offset] ^= 0x80;
            let error = ArpPacket::parse(&bytes).unwrap_err();
            assert!(matches!(error.defect, Defect::BadField { .. }), "{offset}: {error}");
        }
    }
}
