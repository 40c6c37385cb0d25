//! GRE (RFC 2784) with key and sequence number (RFC 2890).

use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The checksum field is present.
pub const CHECKSUM: u16 = 0x8000;
/// The key field is present.
pub const KEY: u16 = 0x2000;
/// The sequence number field is present.
pub const SEQUENCE: u16 = 0x1000;
/// Bits for which a packet is dropped (RFC 2784 section 2.3; key and sequence since defined).
const MUST_BE_ZERO: u16 = 0x4c00;

/// The fixed part, 4 bytes; the optional fields lie behind it: [`GreFields`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct GreHeader {
    flags: U16,
    protocol: U16,
}

impl Header for GreHeader {
    const LAYER: Layer = Layer::Gre;

    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let flags = self.flags();
        if flags & 7 != 0 {
            let defect = Defect::BadVersion { version: flags as u8 & 7 };
            return Err(ParseError::new(Layer::Gre, defect));
        }
        if flags & MUST_BE_ZERO != 0 {
            let defect = Defect::BadField { name: "flags", value: u32::from(flags) };
            return Err(ParseError::new(Layer::Gre, defect));
        }
        let fields = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize;
        let header_len = Self::LEN + 4 * fields;
        if header_len > available {
            return Err(ParseError::too_short(Layer::Gre, header_len, available));
        }
        Ok(Extent { header_len, end: available })
    }
}

impl GreHeader {
    accessors! {
        /// Flags and version as they stand.
        flags, set_flags: u16;
        /// Type of the payload, see [`crate::ethernet::ethertype`].
        protocol, set_protocol: u16;
    }
}

/// The optional fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GreFields {
    /// Checksum of header and payload; [`crate::checksum::checksum`] of both is 0 when right.
    pub checksum: Option<u16>,
    /// Which tunnel or flow.
    pub key: Option<u32>,
    /// Number of the packet.
    pub sequence: Option<u32>,
}

impl GreFields {
    /// From a header and its options, as [`Header::parse_with_options`] gives them.
    #[must_use]
    #[inline]
    pub fn read(header: &GreHeader, options: &[u8]) -> Self {
        let (mut words, _) = options.as_chunks::<4>();
        let flags = header.flags();
        let mut take = |flag| {
            let (word, rest) = words.split_first().filter(|_| flags & flag != 0)?;
            words = rest;
            Some(u32::from_be_bytes(*word))
        };
        let checksum = take(CHECKSUM).map(|word| (word >> 16) as u16);
        Self { checksum, key: take(KEY), sequence: take(SEQUENCE) }
    }

    /// Writes a header with these fields to the front of `out`; returns the rest. The checksum is
    /// written as it is.
    ///
    /// # Errors
    /// `TooShort` when `out` is.
    pub fn emit<'a>(&self, protocol: u16, out: &'a mut [u8]) -> Result<&'a mut [u8], ParseError> {
        let fields = [
            (CHECKSUM, self.checksum.map(|sum| u32::from(sum) << 16)),
            (KEY, self.key),
            (SEQUENCE, self.sequence),
        ];
        let mut header = GreHeader { flags: U16::ZERO, protocol: U16::new(protocol) };
        for (flag, _) in fields.iter().filter(|(_, value)| value.is_some()) {
            header.flags = U16::new(header.flags() | flag);
        }
        let available = out.len();
        let mut rest = header.emit(out)?;
        for value in fields.into_iter().filter_map(|(_, value)| value) {
            let error = ParseError::too_short(Layer::Gre, GreHeader::LEN + 12, available);
            let (word, behind) = rest.split_at_mut_checked(4).ok_or(error)?;
            word.copy_from_slice(&value.to_be_bytes());
            rest = behind;
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn defects() {
        let defect = |bytes: &[u8]| GreHeader::parse(bytes).unwrap_err().defect;
        assert_eq!(defect(&[0, 1, 8, 0]), Defect::BadVersion { version: 1 });
        assert_eq!(defect(&[0x40, 0, 8, 0]), Defect::BadField { name: "flags", value: 0x4000 });
        let short = Defect::TooShort { required_len: 12, len: 11 };
        assert_eq!(defect(&[0xa0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]), short);
    }

    proptest! {
        #[test]
        fn emitted_is_parsed(
            checksum in proptest::option::of(any::<u16>()),
            key in proptest::option::of(any::<u32>()),
            sequence in proptest::option::of(any::<u32>()), protocol in any::<u16>(),
        ) {
            let fields = GreFields { checksum, key, sequence };
            let mut bytes = [0; 17];
            let behind = fields.emit(protocol, &mut bytes).unwrap().len();
            let (header, options, payload) = GreHeader::parse_with_options(&bytes).unwrap();
            prop_assert_eq!((header.protocol(), payload.len()), (protocol, behind));
            prop_assert_eq!(GreFields::read(header, options), fields);
            prop_assert!(fields.emit(protocol, &mut bytes[..16 - behind]).is_err());
        }
    }
}
