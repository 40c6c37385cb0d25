//! GTP version 1, user plane (3GPP TS 29.281).

use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP port of the user plane (TS 29.281 section 4.4.2).
pub const PORT: u16 = 2152;
/// Message type of a user's packet (TS 29.281 section 6.1).
pub const G_PDU: u8 = 255;
/// Version 1, protocol type GTP.
const VERSION_1: u8 = 0x30;
/// Version and protocol type.
const VERSION_MASK: u8 = 0xf0;
/// Extension headers, sequence number, N-PDU number: any of them adds four bytes.
const OPTIONAL: u8 = 0x07;
/// Extension headers follow.
const EXTENSION: u8 = 0x04;
/// Most extension headers that are walked over.
pub const MAX_EXTENSIONS: usize = 8;

/// The fixed part, 8 bytes; optional fields and extension headers lie behind it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct GtpHeader {
    flags: u8,
    message_type: u8,
    len: U16,
    teid: U32,
}

impl Header for GtpHeader {
    const LAYER: Layer = Layer::Gtp;

    /// The length covers all behind the fixed part and must be there. Extension headers are not in
    /// the header's length: see [`GtpHeader::payload`].
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        if self.flags & VERSION_MASK != VERSION_1 {
            let defect = Defect::BadVersion { version: self.flags >> 5 };
            return Err(ParseError::new(Layer::Gtp, defect));
        }
        let end = Self::LEN + usize::from(self.len.get());
        let header_len = Self::LEN + if self.flags & OPTIONAL != 0 { 4 } else { 0 };
        if end < header_len || end > available {
            let defect = Defect::BadTotalLength { total_len: end, len: available };
            return Err(ParseError::new(Layer::Gtp, defect));
        }
        Ok(Extent { header_len, end })
    }
}

impl GtpHeader {
    /// The header of a user's packet of `payload_len` bytes in tunnel `teid`.
    ///
    /// # Errors
    /// `TooLong` when the payload does not fit the length field.
    pub fn new(teid: u32, payload_len: usize) -> Result<Self, ParseError> {
        let defect = Defect::TooLong { max_len: 0xffff, len: payload_len };
        let len = u16::try_from(payload_len).map_err(|_| ParseError::new(Layer::Gtp, defect))?;
        Ok(Self { flags: VERSION_1, message_type: G_PDU, len: U16::new(len), teid: U32::new(teid) })
    }

    accessors! {
        /// The message type; [`G_PDU`] carries a user's packet.
        message_type, set_message_type: u8;
        /// Tunnel endpoint identifier.
        teid, set_teid: u32;
    }

    /// The header at the front of `bytes` and its payload, behind its extension headers.
    ///
    /// # Errors
    /// A bad version or length, or more than [`MAX_EXTENSIONS`].
    pub fn payload(bytes: &[u8]) -> Result<(&Self, &[u8]), ParseError> {
        let (header, options, mut rest) = Self::parse_with_options(bytes)?;
        if header.flags & EXTENSION == 0 {
            return Ok((header, rest));
        }
        let mut next = options.last().copied().unwrap_or(0);
        for _ in 0..MAX_EXTENSIONS {
            if next == 0 {
                return Ok((header, rest));
            }
            // TS 29.281 section 5.2.1: the first byte is the length in units of four bytes.
            let len = usize::from(rest.first().copied().unwrap_or(0)) * 4;
            let short = ParseError::too_short(Layer::Gtp, len.max(4), rest.len());
            let (extension, behind) = rest.split_at_checked(len).ok_or(short)?;
            (next, rest) = (extension.last().copied().ok_or(short)?, behind);
        }
        match next {
            0 => Ok((header, rest)),
            _ => Err(ParseError::new(Layer::Gtp, Defect::TooDeep { limit: MAX_EXTENSIONS })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout() {
        let mut bytes = [0; 11];
        GtpHeader::new(0x0102_0304, 3).unwrap().emit(&mut bytes).unwrap();
        assert_eq!(bytes[..8], [0x30, 0xff, 0, 3, 1, 2, 3, 4]);
        let (header, payload) = GtpHeader::payload(&bytes).unwrap();
        assert_eq!((header.teid(), header.message_type(), payload.len()), (0x0102_0304, 255, 3));
        assert!(GtpHeader::payload(&bytes[..10]).is_err());
        assert!(GtpHeader::new(1, 65_536).is_err());
    }

    #[test]
    fn optional_fields_and_extensions() {
        let sequence = [0x32, 255, 0, 5, 0, 0, 0, 1, 0, 9, 0, 0, 0x45];
        assert_eq!(GtpHeader::payload(&sequence).unwrap().1, [0x45]);
        let extended = [0x34, 255, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0, 0x45];
        assert_eq!(GtpHeader::payload(&extended).unwrap().1, [0x45]);
        let endless = [0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0, 9, 0x85];
        assert!(GtpHeader::payload(&endless).is_err());
        let mut many = vec![0x34, 255, 0, 44, 0, 0, 0, 1, 0, 0, 0, 0x85];
        many.extend([1, 0, 0, 0x85].repeat(10));
        let error = GtpHeader::payload(&many).unwrap_err();
        assert_eq!(error.defect, Defect::TooDeep { limit: MAX_EXTENSIONS });
    }

    proptest! {
        #[test]
        fn never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..64), flags in 0x30u8..0x38) {
            let _ = GtpHeader::payload(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = flags;
            }
            if let Ok((_, payload)) = GtpHeader::payload(&bytes) {
                prop_assert!(payload.len() <= bytes.len() - 8);
            }
        }
    }
}
