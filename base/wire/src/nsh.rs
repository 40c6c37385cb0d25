//! Network service header (RFC 8300): where a packet is on its path through service functions.

use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Type of the payload, in the common numbers of NSH (RFC 8300 section 9.5) and VXLAN-GPE.
pub mod next_protocol {
    /// An IPv4 packet.
    pub const IPV4: u8 = 1;
    /// An IPv6 packet.
    pub const IPV6: u8 = 2;
    /// An Ethernet frame.
    pub const ETHERNET: u8 = 3;
    /// A network service header.
    pub const NSH: u8 = 4;
}

/// Metadata of a fixed length (RFC 8300 section 2.4).
pub const MD_FIXED: u8 = 1;
/// Metadata of variable length (RFC 8300 section 2.5).
pub const MD_VARIABLE: u8 = 2;
/// Bytes of metadata of type [`MD_FIXED`].
pub const FIXED_LEN: usize = 16;
/// Time to live that a classifier begins with (RFC 8300 section 2.2).
pub const DEFAULT_TTL: u8 = 63;
/// Largest service path identifier.
pub const PATH_MAX: u32 = 0xff_ffff;
/// Longest header: its length field has six bits and counts words (RFC 8300 section 2.2).
pub const MAX_LEN: usize = 63 * 4;

const OAM: u16 = 0x2000;
const LEN_MASK: u16 = 0x3f;
const TTL_SHIFT: u16 = 6;

/// Base header and service path header, 8 bytes; the metadata lie behind it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct NshHeader {
    first: U16,
    md_type: u8,
    next_protocol: u8,
    service_path: U32,
}

impl Header for NshHeader {
    const LAYER: Layer = Layer::Nsh;

    /// The length must be that of the type of metadata, and be there.
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let error = |defect| Err(ParseError::new(Layer::Nsh, defect));
        let version = (self.first.get() >> 14) as u8;
        if version != 0 {
            return error(Defect::BadVersion { version });
        }
        let header_len = usize::from(self.first.get() & LEN_MASK) * 4;
        let is_right = match self.md_type() {
            MD_FIXED => header_len == Self::LEN + FIXED_LEN,
            MD_VARIABLE => header_len >= Self::LEN,
            other => {
                return error(Defect::BadField { name: "metadata type", value: other.into() });
            }
        };
        if !is_right {
            return error(Defect::BadHeaderLength { header_len });
        }
        if header_len > available {
            return Err(ParseError::too_short(Layer::Nsh, header_len, available));
        }
        Ok(Extent { header_len, end: available })
    }
}

impl NshHeader {
    /// A header with `metadata_len` bytes of metadata of type `md_type`, full time to live.
    ///
    /// # Errors
    /// `BadHeaderLength` when the metadata are no whole words, or do not fit.
    pub fn new(
        md_type: u8,
        metadata_len: usize,
        next_protocol: u8,
        (path, index): (u32, u8),
    ) -> Result<Self, ParseError> {
        let header_len = Self::LEN.saturating_add(metadata_len);
        if header_len > MAX_LEN || !header_len.is_multiple_of(4) {
            return Err(ParseError::new(Layer::Nsh, Defect::BadHeaderLength { header_len }));
        }
        let first = u16::from(DEFAULT_TTL) << TTL_SHIFT | (header_len / 4) as u16;
        Ok(Self {
            first: U16::new(first),
            md_type: md_type & 0x0f,
            next_protocol,
            service_path: U32::new(path << 8 | u32::from(index)),
        })
    }

    accessors! {
        /// Type of the payload, see [`next_protocol`].
        next_protocol, set_next_protocol: u8;
        /// Path and index as they stand: 24 and 8 bits.
        service_path, set_service_path: u32;
    }

    /// Type of the metadata: [`MD_FIXED`] or [`MD_VARIABLE`] once parsed.
    #[must_use]
    #[inline]
    pub fn md_type(&self) -> u8 {
        self.md_type & 0x0f
    }

    /// Service path identifier, 24 bits.
    #[must_use]
    #[inline]
    pub fn path(&self) -> u32 {
        self.service_path() >> 8
    }

    /// Service index: how many functions are ahead.
    #[must_use]
    #[inline]
    pub fn index(&self) -> u8 {
        self.service_path() as u8
    }

    /// Sets the service index.
    #[inline]
    pub fn set_index(&mut self, index: u8) {
        self.set_service_path(self.service_path() & !0xff | u32::from(index));
    }

    /// Time to live in hops, 6 bits.
    #[must_use]
    #[inline]
    pub fn ttl(&self) -> u8 {
        (self.first.get() >> TTL_SHIFT) as u8 & 0x3f
    }

    /// Sets the low 6 bits of `ttl`.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        let others = self.first.get() & !(0x3f << TTL_SHIFT);
        self.first = U16::new(others | u16::from(ttl & 0x3f) << TTL_SHIFT);
    }

    /// The packet is for operation and maintenance, no user's (O bit).
    #[must_use]
    #[inline]
    pub fn is_oam(&self) -> bool {
        self.first.get() & OAM != 0
    }
}

/// One piece of metadata of type [`MD_VARIABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// The organisation that defines the types (RFC 8300 section 9.1.4).
    pub class: u16,
    /// Which one of them.
    pub kind: u8,
    /// Its bytes, without padding.
    pub value: &'a [u8],
}

impl Variable<'_> {
    /// Bytes of class, kind and length.
    pub const HEADER_LEN: usize = 4;

    /// Writes it to the front of `out`, padded with zeros; gives the rest.
    ///
    /// # Errors
    /// `TooShort` when `out` is, or the value is longer than the 127 bytes that its length can say.
    pub fn emit<'o>(&self, out: &'o mut [u8]) -> Result<&'o mut [u8], ParseError> {
        let padded = self.value.len().next_multiple_of(4);
        let len = Self::HEADER_LEN + padded;
        let error = ParseError::too_short(Layer::Nsh, len, out.len());
        let value_len = u8::try_from(self.value.len()).map_err(|_| error)?;
        let (front, rest) =
            out.split_at_mut_checked(len).filter(|_| value_len < 0x80).ok_or(error)?;
        let [a, b] = self.class.to_be_bytes();
        front[..4].copy_from_slice(&[a, b, self.kind, value_len]);
        front[4..].fill(0);
        front[4..4 + self.value.len()].copy_from_slice(self.value);
        Ok(rest)
    }
}

/// Metadata of type [`MD_VARIABLE`], in their order. One that is cut is the last item.
#[derive(Clone, Debug)]
pub struct Variables<'a>(&'a [u8]);

impl<'a> Variables<'a> {
    /// Over the bytes behind the service path header.
    #[must_use]
    #[inline]
    pub fn new(metadata: &'a [u8]) -> Self {
        Self(metadata)
    }
}

impl<'a> Iterator for Variables<'a> {
    type Item = Result<Variable<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let available = self.0.len();
        let Some((&[a, b, kind, len], behind)) = self.0.split_first_chunk::<4>() else {
            self.0 = &[];
            return Some(Err(ParseError::too_short(Layer::Nsh, 4, available)));
        };
        let len = usize::from(len & 0x7f);
        let padded = len.next_multiple_of(4);
        let Some((value, rest)) = behind.split_at_checked(padded) else {
            self.0 = &[];
            return Some(Err(ParseError::too_short(Layer::Nsh, 4 + padded, available)));
        };
        self.0 = rest;
        let value = value.get(..len).unwrap_or(value);
        Some(Ok(Variable { class: u16::from_be_bytes([a, b]), kind, value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout() {
        // RFC 8300 section 2.2 and 2.3, written down by hand: TTL 63, 6 words, type 1, IPv4.
        let header = NshHeader::new(MD_FIXED, 16, next_protocol::IPV4, (0x01_0203, 255)).unwrap();
        assert_eq!(header.as_bytes(), [0x0f, 0xc6, 1, 1, 1, 2, 3, 255]);
        assert_eq!((header.path(), header.index(), header.ttl()), (0x01_0203, 255, 63));
        assert!(NshHeader::new(MD_VARIABLE, 2, 1, (1, 1)).is_err());
        assert!(NshHeader::new(MD_VARIABLE, 248, 1, (1, 1)).is_err());
    }

    #[test]
    fn defects() {
        let defect = |bytes: &[u8]| NshHeader::parse(bytes).unwrap_err().defect;
        assert_eq!(defect(&[0x4f, 0xc2, 2, 1, 0, 0, 1, 1]), Defect::BadVersion { version: 1 });
        let value = |value| Defect::BadField { name: "metadata type", value };
        assert_eq!(defect(&[0x0f, 0xc2, 0, 1, 0, 0, 1, 1]), value(0));
        assert_eq!(defect(&[0x0f, 0xc2, 15, 1, 0, 0, 1, 1]), value(15));
        let length = |header_len| Defect::BadHeaderLength { header_len };
        assert_eq!(defect(&[0x0f, 0xc2, 1, 1, 0, 0, 1, 1]), length(8));
        assert_eq!(defect(&[0x0f, 0xc1, 2, 1, 0, 0, 1, 1]), length(4));
        let short = Defect::TooShort { required_len: 12, len: 8 };
        assert_eq!(defect(&[0x0f, 0xc3, 2, 1, 0, 0, 1, 1]), short);
    }

    proptest! {
        /// Written fields are read back, one by one.
        #[test]
        fn emitted_is_parsed(
            path in 0..=PATH_MAX, index: u8, ttl in 0u8..64, next: u8,
            all in prop::collection::vec(
                (any::<u16>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..20)), 0..5),
        ) {
            let mut metadata = vec![0; 240];
            let mut rest = &mut metadata[..];
            for (class, kind, value) in &all {
                rest = Variable { class: *class, kind: *kind, value }.emit(rest).unwrap();
            }
            let len = 240 - rest.len();
            let mut header = NshHeader::new(MD_VARIABLE, len, next, (path, index)).unwrap();
            header.set_ttl(ttl);
            let bytes = [header.as_bytes(), &metadata[..len], &[7; 3]].concat();
            let (read, variables, payload) = NshHeader::parse_with_options(&bytes).unwrap();
            prop_assert_eq!(read, &header);
            prop_assert_eq!((read.path(), read.index(), read.ttl()), (path, index, ttl));
            prop_assert_eq!(payload, &[7; 3]);
            let found: Vec<_> = Variables::new(variables).map(Result::unwrap).collect();
            prop_assert_eq!(found.len(), all.len());
            for (found, (class, kind, value)) in found.iter().zip(&all) {
                let written = (*class, *kind, &value[..]);
                prop_assert_eq!((found.class, found.kind, found.value), written);
            }
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(Variables::new(&bytes).count() <= 17);
            if let Ok((header, metadata, payload)) = NshHeader::parse_with_options(&bytes) {
                let first = u16::from_be_bytes([bytes[0], bytes[1]]);
                prop_assert_eq!(usize::from(first & 0x3f) * 4, 8 + metadata.len());
                prop_assert_eq!(bytes.len(), 8 + metadata.len() + payload.len());
                prop_assert_eq!(header.is_oam(), first & 0x2000 != 0);
            }
        }
    }
}
