//! MPLS label stack (RFC 3032, RFC 5462).

use crate::{Defect, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most entries that [`skip_labels`] walks over.
pub const MAX_LABELS: usize = 16;
/// Label values below this are reserved (IANA "Special-Purpose MPLS Label Values").
pub const FIRST_UNRESERVED: u32 = 16;

/// One entry of the stack, 4 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct MplsLabel {
    entry: U32,
}

impl Header for MplsLabel {
    const LAYER: Layer = Layer::Mpls;
}

impl MplsLabel {
    /// An entry: label (low 20 bits), traffic class (low 3 bits), bottom of the stack, TTL.
    #[must_use]
    #[inline]
    pub const fn new(label: u32, class: u8, bottom: bool, ttl: u8) -> Self {
        let class = (class & 7) as u32;
        let entry = (label << 12) | (class << 9) | ((bottom as u32) << 8) | ttl as u32;
        Self { entry: U32::new(entry) }
    }

    accessors! {
        /// All fields as they stand.
        entry, set_entry: u32;
    }

    /// Label, 0 to 2^20 - 1.
    #[must_use]
    #[inline]
    pub fn label(&self) -> u32 {
        self.entry() >> 12
    }

    /// Sets the low 20 bits of `label`.
    #[inline]
    pub fn set_label(&mut self, label: u32) {
        self.entry = U32::new((self.entry() & 0xfff) | (label << 12));
    }

    /// Traffic class, 0 to 7.
    #[must_use]
    #[inline]
    pub fn class(&self) -> u8 {
        (self.entry() >> 9) as u8 & 7
    }

    /// Last entry of the stack.
    #[must_use]
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.entry() & 0x100 != 0
    }

    /// Time to live in hops.
    #[must_use]
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.entry() as u8
    }

    /// Sets the time to live.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.entry = U32::new((self.entry() & !0xff) | u32::from(ttl));
    }
}

/// Walks over the stack: its last entry, and the payload. The packet does not contain the payload's
/// type; its first four bits are 4 for IPv4 and 6 for IPv6 (RFC 4928).
///
/// # Errors
/// `TooShort` when no last entry is there, `TooDeep` behind [`MAX_LABELS`].
#[inline]
pub fn skip_labels(mut bytes: &[u8]) -> Result<(&MplsLabel, &[u8]), ParseError> {
    for _ in 0..MAX_LABELS {
        let (entry, rest) = MplsLabel::view(bytes)?;
        if entry.is_bottom() {
            return Ok((entry, rest));
        }
        bytes = rest;
    }
    Err(ParseError::new(Layer::Mpls, Defect::TooDeep { limit: MAX_LABELS }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let mut entry = MplsLabel::new(0xabcde, 5, true, 64);
        assert_eq!(entry.as_bytes(), [0xab, 0xcd, 0xeb, 64]);
        assert_eq!((entry.label(), entry.class(), entry.ttl()), (0xabcde, 5, 64));
        entry.set_label(0xfff_00001);
        entry.set_ttl(1);
        assert_eq!((entry.label(), entry.class(), entry.ttl()), (1, 5, 1));
        assert!(entry.is_bottom());
    }

    #[test]
    fn stack() {
        let bytes = [0, 0, 0, 9, 0, 1, 1, 8, 0x45];
        let (entry, rest) = skip_labels(&bytes).unwrap();
        assert_eq!((entry.label(), entry.ttl(), rest), (16, 8, &[0x45u8][..]));
        assert!(skip_labels(&bytes[..7]).is_err());
        let deep = [0; 4 * MAX_LABELS + 4];
        let error = skip_labels(&deep).unwrap_err();
        assert_eq!(error.defect, Defect::TooDeep { limit: MAX_LABELS });
    }
}
