//! UDP (RFC 768).

use crate::checksum::{Delta, Sum};
use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The header, 8 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct UdpHeader {
    src_port: U16,
    dst_port: U16,
    len: U16,
    checksum: U16,
}

impl Header for UdpHeader {
    const LAYER: Layer = Layer::Udp;

    /// The length must cover the header and be available; the payload ends with it.
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let total_len = usize::from(self.len.get());
        if total_len < Self::LEN || total_len > available {
            let defect = Defect::BadTotalLength { total_len, len: available };
            return Err(ParseError::new(Layer::Udp, defect));
        }
        Ok(Extent { header_len: Self::LEN, end: total_len })
    }
}

impl UdpHeader {
    /// A header for `payload_len` bytes, without checksum (0): see [`UdpHeader::fill_checksum`].
    ///
    /// # Errors
    /// `TooLong` when the payload does not fit the length field.
    pub fn new(src_port: u16, dst_port: u16, payload_len: usize) -> Result<Self, ParseError> {
        let too_long = Defect::TooLong { max_len: 0xffff - Self::LEN, len: payload_len };
        let len = payload_len.checked_add(Self::LEN).and_then(|n| u16::try_from(n).ok());
        let len = len.ok_or(ParseError::new(Layer::Udp, too_long))?;
        Ok(Self {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            len: U16::new(len),
            checksum: U16::ZERO,
        })
    }

    accessors! {
        /// Source port.
        src_port, set_src_port: u16;
        /// Destination port.
        dst_port, set_dst_port: u16;
        /// Checksum with the pseudo header; 0 for none (IPv4 only).
        checksum, set_checksum: u16;
    }

    updates! {
        update_src_port: src_port, set_src_port, u16, of_u16;
        update_dst_port: dst_port, set_dst_port, u16, of_u16;
        update_len: len, set_len, u16, of_u16;
    }

    /// Length of header and payload in bytes, at least 8 once parsed.
    #[must_use]
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a field's name; never empty
    pub fn len(&self) -> u16 {
        self.len.get()
    }

    /// Sets [`UdpHeader::len`] and nothing else.
    #[inline]
    pub fn set_len(&mut self, len: u16) {
        self.len.set(len);
    }

    /// Changes the checksum by `delta`; none stays none.
    #[inline]
    pub fn update_checksum(&mut self, delta: Delta) {
        self.checksum = U16::new(delta.apply_udp(self.checksum()));
    }

    /// Computes and sets the checksum of a whole datagram; `pseudo` is the pseudo header's sum.
    ///
    /// # Errors
    /// When `datagram` is not one.
    pub fn fill_checksum(datagram: &mut [u8], pseudo: Sum) -> Result<(), ParseError> {
        let (header, _) = Self::parse_mut(datagram)?;
        header.set_checksum(0);
        let len = usize::from(header.len());
        let checksum = pseudo.with(datagram.get(..len).unwrap_or(&[])).checksum_udp();
        Self::view_mut(datagram)?.0.set_checksum(checksum);
        Ok(())
    }

    /// The checksum of a whole datagram is right, or there is none.
    ///
    /// # Errors
    /// When `datagram` is not one.
    pub fn checksum_ok(datagram: &[u8], pseudo: Sum) -> Result<bool, ParseError> {
        let (header, _) = Self::parse(datagram)?;
        let covered = datagram.get(..usize::from(header.len())).unwrap_or(&[]);
        Ok(header.checksum() == 0 || pseudo.with(covered).checksum() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths() {
        let mut bytes = [0; 12];
        UdpHeader::new(53, 1024, 2).unwrap().emit(&mut bytes).unwrap();
        assert_eq!(bytes[..8], [0, 53, 4, 0, 0, 10, 0, 0]);
        assert_eq!(UdpHeader::parse(&bytes).unwrap().1.len(), 2);
        assert!(UdpHeader::parse(&bytes[..9]).is_err());
        bytes[5] = 7;
        assert!(UdpHeader::parse(&bytes).is_err());
        assert!(UdpHeader::new(1, 2, 65_527).is_ok() && UdpHeader::new(1, 2, 65_528).is_err());
    }

    proptest! {
        #[test]
        fn ports_change_with_the_checksum(
            body in proptest::collection::vec(any::<u8>(), 0..64),
            ports in any::<[u16; 4]>(), src in any::<u32>(),
        ) {
            let pseudo = Sum::pseudo_v4(src, 7, 17, body.len() + 8);
            let mut bytes = vec![0; 8];
            UdpHeader::new(ports[0], ports[1], body.len()).unwrap().emit(&mut bytes).unwrap();
            bytes.extend(body);
            prop_assert!(UdpHeader::checksum_ok(&bytes, pseudo).unwrap()); // none
            UdpHeader::fill_checksum(&mut bytes, pseudo).unwrap();
            prop_assert!(UdpHeader::checksum_ok(&bytes, pseudo).unwrap());
            let (header, _) = UdpHeader::parse_mut(&mut bytes).unwrap();
            header.update_src_port(ports[2]);
            header.update_dst_port(ports[3]);
            let len = header.len();
            header.update_len(7);
            header.update_len(len);
            let updated = *header;
            UdpHeader::fill_checksum(&mut bytes, pseudo).unwrap();
            prop_assert_eq!(UdpHeader::parse(&bytes).unwrap().0, &updated);
        }
    }
}
