//! Geneve (RFC 8926).

use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP destination port (RFC 8926 section 3.3, IANA).
pub const PORT: u16 = 6081;
/// EtherType of a network service header (RFC 8300 section 9.1.1).
pub const NSH: u16 = 0x894f;
/// Longest options: their length has six bits and counts words (RFC 8926 section 3.4).
pub const MAX_OPTIONS_LEN: usize = 63 * 4;

/// The packet is for operation and maintenance.
const OAM: u8 = 0x80;
/// There are critical options.
const CRITICAL: u8 = 0x40;

/// The fixed part, 8 bytes; options lie behind it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct GeneveHeader {
    version_len: u8,
    flags: u8,
    protocol: U16,
    vni_reserved: U32,
}

impl Header for GeneveHeader {
    const LAYER: Layer = Layer::Geneve;

    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let version = self.version_len >> 6;
        if version != 0 {
            return Err(ParseError::new(Layer::Geneve, Defect::BadVersion { version }));
        }
        let header_len = Self::LEN + usize::from(self.version_len & 0x3f) * 4;
        if header_len > available {
            return Err(ParseError::too_short(Layer::Geneve, header_len, available));
        }
        Ok(Extent { header_len, end: available })
    }
}

impl GeneveHeader {
    /// A header for the network `vni` (low 24 bits), with so many bytes of options, none of them
    /// critical.
    ///
    /// # Errors
    /// `BadHeaderLength` when the options are no whole words, or do not fit.
    pub fn new(vni: u32, protocol: u16, options_len: usize) -> Result<Self, ParseError> {
        if options_len > MAX_OPTIONS_LEN || !options_len.is_multiple_of(4) {
            let defect = Defect::BadHeaderLength { header_len: options_len };
            return Err(ParseError::new(Layer::Geneve, defect));
        }
        Ok(Self {
            version_len: (options_len / 4) as u8,
            flags: 0,
            protocol: U16::new(protocol),
            vni_reserved: U32::new(vni << 8),
        })
    }

    accessors! {
        /// Type of the payload: an EtherType, see [`crate::ethernet::ethertype`].
        protocol, set_protocol: u16;
    }

    /// Network identifier, 0 to 2^24 - 1.
    #[must_use]
    #[inline]
    pub fn vni(&self) -> u32 {
        self.vni_reserved.get() >> 8
    }

    /// The packet is for operation and maintenance, no user's (O bit).
    #[must_use]
    #[inline]
    pub fn is_oam(&self) -> bool {
        self.flags & OAM != 0
    }

    /// There is an option that a receiver must know (C bit).
    #[must_use]
    #[inline]
    pub fn has_critical(&self) -> bool {
        self.flags & CRITICAL != 0
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneveOption<'a> {
    /// The organisation that defines the types (RFC 8926 section 7).
    pub class: u16,
    /// The option's type in the class; with the highest bit set, a receiver must know it.
    pub kind: u8,
    /// Its bytes: whole words.
    pub value: &'a [u8],
}

impl GeneveOption<'_> {
    /// Bytes of class, kind and length.
    pub const HEADER_LEN: usize = 4;

    /// A receiver that does not know it must drop the packet (RFC 8926 section 3.5).
    #[must_use]
    #[inline]
    pub fn is_critical(&self) -> bool {
        self.kind & 0x80 != 0
    }

    /// Writes it to the front of `out`, padded with zeros; gives the rest.
    ///
    /// # Errors
    /// `TooShort` when `out` is, or the value is longer than the 31 words that its length can say.
    pub fn emit<'o>(&self, out: &'o mut [u8]) -> Result<&'o mut [u8], ParseError> {
        let words = self.value.len().div_ceil(4);
        let len = Self::HEADER_LEN + words * 4;
        let error = ParseError::too_short(Layer::Geneve, len, out.len());
        let (front, rest) = out.split_at_mut_checked(len).filter(|_| words < 32).ok_or(error)?;
        let [a, b] = self.class.to_be_bytes();
        front[..4].copy_from_slice(&[a, b, self.kind, words as u8]);
        front[4..].fill(0);
        front[4..4 + self.value.len()].copy_from_slice(self.value);
        Ok(rest)
    }
}

/// The options in their order. One that is cut is the last item.
#[derive(Clone, Debug)]
pub struct GeneveOptions<'a>(&'a [u8]);

impl<'a> GeneveOptions<'a> {
    /// Over the bytes behind the fixed part.
    #[must_use]
    #[inline]
    pub fn new(options: &'a [u8]) -> Self {
        Self(options)
    }
}

impl<'a> Iterator for GeneveOptions<'a> {
    type Item = Result<GeneveOption<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let available = self.0.len();
        let Some((&[a, b, kind, words], behind)) = self.0.split_first_chunk::<4>() else {
            self.0 = &[];
            return Some(Err(ParseError::too_short(Layer::Geneve, 4, available)));
        };
        let len = usize::from(words & 0x1f) * 4;
        let Some((value, rest)) = behind.split_at_checked(len) else {
            self.0 = &[];
            return Some(Err(ParseError::too_short(Layer::Geneve, 4 + len, available)));
        };
        self.0 = rest;
        Some(Ok(GeneveOption { class: u16::from_be_bytes([a, b]), kind, value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields() {
        let header = GeneveHeader::new(0xff12_3456, NSH, 8).unwrap();
        assert_eq!(header.as_bytes(), [2, 0, 0x89, 0x4f, 0x12, 0x34, 0x56, 0]);
        assert_eq!((header.vni(), header.protocol()), (0x12_3456, NSH));
        assert!(GeneveHeader::parse(header.as_bytes()).is_err());
        let parsed = |bytes: [u8; 8]| GeneveHeader::parse(&bytes).map(|(header, _)| *header);
        assert!(parsed([0, 0x80, 0x65, 0x58, 0, 0, 1, 0]).unwrap().is_oam());
        assert!(parsed([0, 0x40, 0x65, 0x58, 0, 0, 1, 0]).unwrap().has_critical());
        let defect = parsed([0x40, 0, 0x65, 0x58, 0, 0, 1, 0]).unwrap_err().defect;
        assert_eq!(defect, Defect::BadVersion { version: 1 });
        assert!(GeneveHeader::new(1, NSH, 256).is_err() && GeneveHeader::new(1, NSH, 3).is_err());
    }

    proptest! {
        #[test]
        fn emitted_options_are_parsed(
            all in prop::collection::vec(
                (any::<u16>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..20)), 0..5),
        ) {
            let mut bytes = vec![0xff; 252];
            let mut rest = &mut bytes[..];
            for (class, kind, value) in &all {
                rest = GeneveOption { class: *class, kind: *kind, value }.emit(rest).unwrap();
            }
            let len = 252 - rest.len();
            let found: Vec<_> = GeneveOptions::new(&bytes[..len]).map(Result::unwrap).collect();
            prop_assert_eq!(found.len(), all.len());
            for (found, (class, kind, value)) in found.iter().zip(&all) {
                let mut padded = value.clone();
                padded.resize(value.len().next_multiple_of(4), 0);
                let written = (*class, *kind, &padded[..]);
                prop_assert_eq!((found.class, found.kind, found.value), written);
                prop_assert_eq!(found.is_critical(), kind >= &0x80);
            }
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(GeneveOptions::new(&bytes).count() <= 17);
            if let Ok((_, options, payload)) = GeneveHeader::parse_with_options(&bytes) {
                prop_assert_eq!(usize::from(bytes[0] & 0x3f) * 4, options.len());
                prop_assert_eq!(bytes.len(), 8 + options.len() + payload.len());
            }
        }
    }
}
