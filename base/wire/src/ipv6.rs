//! IPv6, the fixed header (RFC 8200 section 3).

use crate::checksum::{Delta, Sum};
use crate::{Defect, Extent, Header, Layer, ParseError};
use core::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Hop limit of packets made here (IANA "IP Parameters": the recommended default).
pub const DEFAULT_HOP_LIMIT: u8 = 64;
/// Every link carries packets of this many bytes (RFC 8200 section 5).
pub const MIN_MTU: usize = 1280;

/// The fixed header, 40 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (4 bits), traffic class (8), flow label (20).
    first_word: U32,
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    src: [u8; 16],
    dst: [u8; 16],
}

impl Header for Ipv6Header {
    const LAYER: Layer = Layer::Ipv6;

    /// The payload length must be available; the payload (extension headers too) ends with it. A
    /// payload length of 0 is an empty payload: jumbograms (RFC 2675) are not supported.
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        self.check_version()?;
        let total_len = usize::from(self.payload_len()) + Self::LEN;
        if total_len > available {
            let defect = Defect::BadTotalLength { total_len, len: available };
            return Err(ParseError::new(Layer::Ipv6, defect));
        }
        Ok(Extent { header_len: Self::LEN, end: total_len })
    }
}

impl Ipv6Header {
    /// A header for `payload_len` bytes of `next_header`, hop limit [`DEFAULT_HOP_LIMIT`], traffic
    /// class and flow label zero.
    ///
    /// # Errors
    /// `TooLong` when the payload does not fit the payload length field.
    pub fn new(
        next_header: u8,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        payload_len: usize,
    ) -> Result<Self, ParseError> {
        let too_long = Defect::TooLong { max_len: 0xffff, len: payload_len };
        let payload_len =
            u16::try_from(payload_len).map_err(|_| ParseError::new(Layer::Ipv6, too_long))?;
        Ok(Self {
            first_word: U32::new(6 << 28),
            payload_len: U16::new(payload_len),
            next_header,
            hop_limit: DEFAULT_HOP_LIMIT,
            src: src.octets(),
            dst: dst.octets(),
        })
    }

    /// As [`Header::parse`] for a packet that may have been cut, such as the one quoted by an
    /// ICMPv6 error: whatever the payload length, the payload is all available bytes.
    /// # Errors
    /// A bad version, or fewer than 40 bytes.
    #[inline]
    pub fn parse_cut(bytes: &[u8]) -> Result<(&Self, &[u8]), ParseError> {
        let (header, rest) = Self::view(bytes)?;
        header.check_version()?;
        Ok((header, rest))
    }

    #[inline]
    fn check_version(&self) -> Result<(), ParseError> {
        match self.version() {
            6 => Ok(()),
            version => Err(ParseError::new(Layer::Ipv6, Defect::BadVersion { version })),
        }
    }

    accessors! {
        /// Length of the payload, extension headers included, in bytes.
        payload_len, set_payload_len: u16;
        /// Next header, see [`crate::ip_protocol`]; perhaps an extension header.
        next_header, set_next_header: u8;
        /// Time to live in hops.
        hop_limit, set_hop_limit: u8;
        /// Source address, as bytes.
        src, set_src: [u8; 16];
        /// Destination address, as bytes.
        dst, set_dst: [u8; 16];
    }

    /// Version field: 6 once parsed.
    #[must_use]
    #[inline]
    pub fn version(&self) -> u8 {
        (self.first_word.get() >> 28) as u8
    }

    /// Traffic class: DSCP and ECN.
    #[must_use]
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.first_word.get() >> 20) as u8
    }

    /// Sets the traffic class.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let rest = self.first_word.get() & !(0xff << 20);
        self.first_word.set(rest | u32::from(class) << 20);
    }

    /// Differentiated services code point, 0 to 63 (RFC 2474).
    #[must_use]
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Sets the low six bits of `dscp`, nothing else.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set_traffic_class((dscp << 2) | self.ecn());
    }

    /// Explicit congestion notification, 0 to 3 (RFC 3168).
    #[must_use]
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Sets the low two bits of `ecn`, nothing else.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        self.set_traffic_class((self.traffic_class() & !3) | (ecn & 3));
    }

    /// Flow label, 20 bits (RFC 6437).
    #[must_use]
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.first_word.get() & 0x000f_ffff
    }

    /// Sets the low 20 bits of `label`.
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        let rest = self.first_word.get() & 0xfff0_0000;
        self.first_word.set(rest | (label & 0x000f_ffff));
    }

    /// One hop less. A limit of 0 stays 0.
    #[inline]
    pub fn decrement_hop_limit(&mut self) {
        self.hop_limit = self.hop_limit.saturating_sub(1);
    }

    /// Source address.
    #[must_use]
    #[inline]
    pub fn src_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.src)
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub fn dst_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.dst)
    }

    /// Changes the source address; gives the change for the upper layer's checksum.
    #[inline]
    pub fn update_src(&mut self, src: &[u8; 16]) -> Delta {
        Delta::of_ipv6(&core::mem::replace(&mut self.src, *src), src)
    }

    /// Changes the destination address; gives the change for the upper layer's checksum.
    #[inline]
    pub fn update_dst(&mut self, dst: &[u8; 16]) -> Delta {
        Delta::of_ipv6(&core::mem::replace(&mut self.dst, *dst), dst)
    }

    /// Sum of the pseudo header for an upper-layer packet of `len` bytes of `protocol`. With a
    /// routing header the destination must be the final one (RFC 8200 section 8.1).
    #[must_use]
    #[inline]
    pub fn pseudo_sum(&self, protocol: u8, len: usize) -> Sum {
        Sum::pseudo_v6(&self.src, &self.dst, protocol, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip_protocol;
    use proptest::prelude::*;

    fn sample() -> Ipv6Header {
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        Ipv6Header::new(ip_protocol::UDP, src, dst, 8).unwrap()
    }

    #[test]
    fn lengths_and_version() {
        let mut bytes = [0; 50];
        sample().emit(&mut bytes).unwrap();
        assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 8, 17, 64]);
        let (header, payload) = Ipv6Header::parse(&bytes).unwrap();
        assert_eq!((header, payload.len()), (&sample(), 8));
        let defect = Ipv6Header::parse(&bytes[..47]).unwrap_err().defect;
        assert_eq!(defect, Defect::BadTotalLength { total_len: 48, len: 47 });
        assert_eq!(Ipv6Header::parse_cut(&bytes[..47]).unwrap().1.len(), 7);
        bytes[0] = 0x45;
        let invalid = Defect::BadVersion { version: 4 };
        assert_eq!(Ipv6Header::parse(&bytes).unwrap_err().defect, invalid);
        assert_eq!(Ipv6Header::parse_cut(&bytes).unwrap_err().defect, invalid);
        let (src, dst) = (header_addr(1), header_addr(2));
        assert!(Ipv6Header::new(6, src, dst, 65_535).is_ok());
        assert!(Ipv6Header::new(6, src, dst, 65_536).is_err());
    }

    fn header_addr(n: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(n)
    }

    proptest! {
        #[test]
        fn addresses_and_upper_checksum(src in any::<[u8; 16]>(), dst in any::<[u8; 16]>()) {
            let mut header = sample();
            let before = header.pseudo_sum(6, 0).checksum();
            let delta = header.update_src(&src).and(header.update_dst(&dst));
            prop_assert_eq!((header.src(), header.dst()), (src, dst));
            prop_assert_eq!(delta.apply(before), header.pseudo_sum(6, 0).checksum());
        }

        #[test]
        fn parts_of_the_first_word(class in any::<u8>(), label in 0u32..1 << 20, ecn in 0u8..4) {
            let mut header = sample();
            header.set_traffic_class(class);
            header.set_flow_label(label);
            header.set_ecn(ecn);
            prop_assert_eq!((header.version(), header.dscp(), header.ecn()), (6, class >> 2, ecn));
            header.set_dscp(class & 0x3f);
            prop_assert_eq!((header.dscp(), header.flow_label()), (class & 0x3f, label));
        }
    }
}
