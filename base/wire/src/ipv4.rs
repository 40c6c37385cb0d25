//! IPv4 (RFC 791; RFC 2474 and RFC 3168 for the type of service).

use crate::checksum::{self, Delta, Sum};
use crate::{Defect, Extent, Header, Layer, ParseError, ip_protocol};
use core::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// TTL of packets made here (IANA "IP Parameters": the recommended default).
pub const DEFAULT_TTL: u8 = 64;
/// Longest header in bytes.
pub const MAX_HEADER_LEN: usize = 60;
/// Reserved bit of the flags and offset word.
pub const RESERVED_FLAG: u16 = 0x8000;
/// "Don't fragment" of the flags and offset word.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments" of the flags and offset word.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Fragment offset of the flags and offset word, in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// The fixed part of the header, 20 bytes. Options lie behind it: [`Header::parse_with_options`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Header {
    version_ihl: u8,
    tos: u8,
    total_len: U16,
    id: U16,
    flags_offset: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    src: U32,
    dst: U32,
}

impl Header for Ipv4Header {
    const LAYER: Layer = Layer::Ipv4;

    /// The total length must cover the header and be available; the payload ends with it.
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let extent = self.header_extent(available)?;
        let total_len = usize::from(self.total_len());
        if total_len < extent.header_len || total_len > available {
            let defect = Defect::BadTotalLength { total_len, len: available };
            return Err(ParseError::new(Layer::Ipv4, defect));
        }
        Ok(Extent { end: total_len, ..extent })
    }
}

impl Ipv4Header {
    /// A header without options for `payload_len` bytes of `protocol`, TTL [`DEFAULT_TTL`], all
    /// else zero, its checksum right.
    ///
    /// # Errors
    /// `TooLong` when the payload does not fit the total length field.
    pub fn new(
        protocol: u8,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        payload_len: usize,
    ) -> Result<Self, ParseError> {
        let too_long = Defect::TooLong { max_len: 0xffff - Self::LEN, len: payload_len };
        let total_len = payload_len.checked_add(Self::LEN).and_then(|n| u16::try_from(n).ok());
        let total_len = total_len.ok_or(ParseError::new(Layer::Ipv4, too_long))?;
        let mut header = Self {
            version_ihl: 0x45,
            tos: 0,
            total_len: U16::new(total_len),
            id: U16::ZERO,
            flags_offset: U16::ZERO,
            ttl: DEFAULT_TTL,
            protocol,
            checksum: U16::ZERO,
            src: U32::new(src.to_bits()),
            dst: U32::new(dst.to_bits()),
        };
        header.fill_checksum(&[]);
        Ok(header)
    }

    /// As [`Header::parse_with_options`] for a packet that may have been cut, such as the one that
    /// an ICMP error quotes: whatever the total length, the payload is all available bytes.
    /// # Errors
    /// A bad version or header length.
    #[inline]
    pub fn parse_cut(bytes: &[u8]) -> Result<(&Self, &[u8], &[u8]), ParseError> {
        let (header, rest) = Self::view(bytes)?;
        let extent = header.header_extent(bytes.len())?;
        let cut = rest.split_at_checked(extent.header_len - Self::LEN);
        let (options, payload) =
            cut.ok_or(ParseError::too_short(Layer::Ipv4, extent.header_len, bytes.len()))?;
        Ok((header, options, payload))
    }

    /// Checks version and header length only.
    #[inline]
    fn header_extent(&self, available: usize) -> Result<Extent, ParseError> {
        if self.version() != 4 {
            let defect = Defect::BadVersion { version: self.version() };
            return Err(ParseError::new(Layer::Ipv4, defect));
        }
        let header_len = self.header_len();
        if header_len < Self::LEN {
            let defect = Defect::BadHeaderLength { header_len };
            return Err(ParseError::new(Layer::Ipv4, defect));
        }
        if header_len > available {
            return Err(ParseError::too_short(Layer::Ipv4, header_len, available));
        }
        Ok(Extent { header_len, end: available })
    }

    accessors! {
        /// Type of service: DSCP and ECN.
        tos, set_tos: u8;
        /// Length of header and payload in bytes.
        total_len, set_total_len: u16;
        /// Identification of the fragments of a packet.
        id, set_id: u16;
        /// Flags and fragment offset as they stand.
        flags_offset, set_flags_offset: u16;
        /// Time to live in hops.
        ttl, set_ttl: u8;
        /// Protocol of the payload, see [`ip_protocol`].
        protocol, set_protocol: u8;
        /// Header checksum.
        checksum, set_checksum: u16;
        /// Source address, as a number.
        src, set_src: u32;
        /// Destination address, as a number.
        dst, set_dst: u32;
    }

    /// Version field: 4 once parsed.
    #[must_use]
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Length of the header with its options in bytes: 20 to 60 once parsed.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl & 0x0f) * 4
    }

    /// Sets the header length in bytes, rounded up to 4.
    ///
    /// # Errors
    /// `BadHeaderLength` when it is not within 20 to 60.
    pub fn set_header_len(&mut self, header_len: usize) -> Result<(), ParseError> {
        if !(Self::LEN..=MAX_HEADER_LEN).contains(&header_len) {
            let defect = Defect::BadHeaderLength { header_len };
            return Err(ParseError::new(Layer::Ipv4, defect));
        }
        self.version_ihl = 0x40 | header_len.div_ceil(4) as u8; // at most 15
        Ok(())
    }

    /// Differentiated services code point, 0 to 63 (RFC 2474).
    #[must_use]
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// Sets the low six bits of `dscp`, nothing else.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.tos = (dscp << 2) | self.ecn();
    }

    /// Explicit congestion notification, 0 to 3 (RFC 3168).
    #[must_use]
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// Sets the low two bits of `ecn`, nothing else.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        self.tos = (self.tos & !3) | (ecn & 3);
    }

    /// Routers must not fragment it.
    #[must_use]
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_offset() & DONT_FRAGMENT != 0
    }

    /// Not the last fragment.
    #[must_use]
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_offset() & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the whole packet's, in bytes.
    #[must_use]
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (self.flags_offset() & OFFSET_MASK) * 8
    }

    /// Part of a fragmented packet, first or later.
    #[must_use]
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_offset() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Has the front of the payload (Click: "first fragment", whole packets too).
    #[must_use]
    #[inline]
    pub fn is_first_fragment(&self) -> bool {
        self.flags_offset() & OFFSET_MASK == 0
    }

    /// Source address.
    #[must_use]
    #[inline]
    pub fn src_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.src())
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub fn dst_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.dst())
    }

    /// Sum of the pseudo header for a transport segment of `len` bytes in this packet.
    #[must_use]
    #[inline]
    pub fn pseudo_sum(&self, len: usize) -> Sum {
        Sum::pseudo_v4(self.src(), self.dst(), self.protocol, len)
    }

    /// The checksum of this header and `options` is right.
    #[must_use]
    #[inline]
    pub fn checksum_ok(&self, options: &[u8]) -> bool {
        self.sum(options) == 0
    }

    /// Computes and sets the checksum over this header and `options`.
    #[inline]
    pub fn fill_checksum(&mut self, options: &[u8]) {
        self.checksum = U16::ZERO;
        self.checksum = U16::new(self.sum(options));
    }

    #[inline]
    fn sum(&self, options: &[u8]) -> u16 {
        let fixed: &[u8; 20] = zerocopy::transmute_ref!(self);
        if options.is_empty() {
            return checksum::checksum_20(fixed);
        }
        Sum::ZERO.with(fixed).with(options).checksum()
    }

    /// Changes the checksum by `delta`.
    #[inline]
    pub fn update_checksum(&mut self, delta: Delta) {
        self.checksum = U16::new(delta.apply(self.checksum()));
    }

    updates! {
        update_tos: tos, set_tos, u8, of_low;
        update_total_len: total_len, set_total_len, u16, of_u16;
        update_id: id, set_id, u16, of_u16;
        update_flags_offset: flags_offset, set_flags_offset, u16, of_u16;
        update_ttl: ttl, set_ttl, u8, of_high;
        update_src: src, set_src, u32, of_u32;
        update_dst: dst, set_dst, u32, of_u32;
    }

    /// One hop less, the checksum updated. A TTL of 0 stays 0.
    #[inline]
    pub fn decrement_ttl(&mut self) {
        self.update_ttl(self.ttl.saturating_sub(1));
    }

    /// TCP, UDP... ports can be read from the payload: first fragment of a protocol with ports.
    #[must_use]
    #[inline]
    pub fn has_ports(&self) -> bool {
        self.is_first_fragment() && ip_protocol::has_ports(self.protocol)
    }
}

#[cfg(test)]
mod tests;
