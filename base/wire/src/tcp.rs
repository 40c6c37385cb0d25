//! TCP (RFC 9293), the fixed header. Options: [`crate::tcp_option`].

use crate::checksum::{Delta, Sum};
use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Longest header in bytes.
pub const MAX_HEADER_LEN: usize = 60;

/// Control bits (RFC 9293 section 3.1), as [`TcpHeader::flags`] gives them.
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number means something.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer means something.
    pub const URG: u8 = 0x20;
    /// Congestion was seen (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

/// The fixed part of the header, 20 bytes. Options lie behind it: [`Header::parse_with_options`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct TcpHeader {
    src_port: U16,
    dst_port: U16,
    seq: U32,
    ack: U32,
    offset_reserved: u8,
    flags: u8,
    window: U16,
    checksum: U16,
    urgent: U16,
}

impl Header for TcpHeader {
    const LAYER: Layer = Layer::Tcp;

    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let header_len = self.header_len();
        if header_len < Self::LEN {
            let defect = Defect::BadHeaderLength { header_len };
            return Err(ParseError::new(Layer::Tcp, defect));
        }
        if header_len > available {
            return Err(ParseError::too_short(Layer::Tcp, header_len, available));
        }
        Ok(Extent { header_len, end: available })
    }
}

impl TcpHeader {
    /// A header without options; window, checksum and urgent pointer zero.
    #[must_use]
    pub fn new(ports: (u16, u16), seq: u32, ack: u32, flags: u8) -> Self {
        Self {
            src_port: U16::new(ports.0),
            dst_port: U16::new(ports.1),
            seq: U32::new(seq),
            ack: U32::new(ack),
            offset_reserved: 0x50,
            flags,
            window: U16::ZERO,
            checksum: U16::ZERO,
            urgent: U16::ZERO,
        }
    }

    accessors! {
        /// Source port.
        src_port, set_src_port: u16;
        /// Destination port.
        dst_port, set_dst_port: u16;
        /// Sequence number of the first byte of the payload (of the SYN, when there is one).
        seq, set_seq: u32;
        /// Acknowledgement number: the next byte expected.
        ack, set_ack: u32;
        /// Control bits, see [`flags`].
        flags, set_flags: u8;
        /// Window, not scaled.
        window, set_window: u16;
        /// Checksum with the pseudo header.
        checksum, set_checksum: u16;
        /// Urgent pointer.
        urgent, set_urgent: u16;
    }

    updates! {
        update_src_port: src_port, set_src_port, u16, of_u16;
        update_dst_port: dst_port, set_dst_port, u16, of_u16;
        update_seq: seq, set_seq, u32, of_u32;
        update_ack: ack, set_ack, u32, of_u32;
        update_flags: flags, set_flags, u8, of_low;
        update_window: window, set_window, u16, of_u16;
        update_urgent: urgent, set_urgent, u16, of_u16;
    }

    /// Length of the header with its options in bytes: 20 to 60 once parsed.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.offset_reserved >> 4) * 4
    }

    /// Sets the header length in bytes, rounded up to 4.
    ///
    /// # Errors
    /// `BadHeaderLength` when it is not within 20 to 60.
    pub fn set_header_len(&mut self, header_len: usize) -> Result<(), ParseError> {
        if !(Self::LEN..=MAX_HEADER_LEN).contains(&header_len) {
            let defect = Defect::BadHeaderLength { header_len };
            return Err(ParseError::new(Layer::Tcp, defect));
        }
        let words = header_len.div_ceil(4) as u8; // at most 15
        self.offset_reserved = (words << 4) | (self.offset_reserved & 0x0f);
        Ok(())
    }

    /// All bits of `mask` are set.
    #[must_use]
    #[inline]
    pub fn has_flags(&self, mask: u8) -> bool {
        self.flags & mask == mask
    }

    /// Changes the checksum by `delta`.
    #[inline]
    pub fn update_checksum(&mut self, delta: Delta) {
        self.checksum = U16::new(delta.apply(self.checksum()));
    }

    /// Computes and sets the checksum of a whole segment; `pseudo` is the pseudo header's sum.
    ///
    /// # Errors
    /// When `segment` is not one.
    pub fn fill_checksum(segment: &mut [u8], pseudo: Sum) -> Result<(), ParseError> {
        Self::parse_mut(segment)?.0.set_checksum(0);
        let checksum = pseudo.with(segment).checksum();
        Self::view_mut(segment)?.0.set_checksum(checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_and_defects() {
        let mut header = TcpHeader::new((80, 1024), 1, 2, flags::SYN | flags::ACK);
        header.set_header_len(24).unwrap();
        let mut bytes = [0; 26];
        header.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..14], [0, 80, 4, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x12]);
        let (parsed, options, payload) = TcpHeader::parse_with_options(&bytes).unwrap();
        assert_eq!((parsed, options.len(), payload.len()), (&header, 4, 2));
        assert!(parsed.has_flags(flags::SYN) && !parsed.has_flags(flags::SYN | flags::FIN));
        assert_eq!(
            TcpHeader::parse(&bytes[..23]).unwrap_err().defect,
            Defect::TooShort { required_len: 24, len: 23 }
        );
        bytes[12] = 0x40;
        let defect = TcpHeader::parse(&bytes).unwrap_err().defect;
        assert_eq!(defect, Defect::BadHeaderLength { header_len: 16 });
    }

    proptest! {
        #[test]
        fn updates_keep_the_checksum(
            body in proptest::collection::vec(any::<u8>(), 0..64), ports in any::<[u16; 3]>(),
            seq in any::<u32>(), ack in any::<u32>(), window in any::<u16>(),
        ) {
            let pseudo = Sum::pseudo_v4(ack, 7, 6, body.len() + 20);
            let mut bytes = vec![0; 20];
            TcpHeader::new((ports[0], 9), ack, seq, flags::ACK).emit(&mut bytes).unwrap();
            bytes.extend(body);
            TcpHeader::fill_checksum(&mut bytes, pseudo).unwrap();
            prop_assert_eq!(pseudo.with(&bytes).checksum(), 0);
            let (header, _) = TcpHeader::parse_mut(&mut bytes).unwrap();
            header.update_src_port(ports[1]);
            header.update_dst_port(ports[2]);
            header.update_seq(seq);
            header.update_ack(ack);
            header.update_window(window);
            header.update_urgent(window);
            header.update_flags(seq as u8);
            let updated = *header;
            TcpHeader::fill_checksum(&mut bytes, pseudo).unwrap();
            prop_assert_eq!(TcpHeader::parse(&bytes).unwrap().0, &updated);
        }
    }
}
