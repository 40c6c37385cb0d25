//! VXLAN with a field for the type of the payload (draft-ietf-nvo3-vxlan-gpe).

use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP destination port (draft-ietf-nvo3-vxlan-gpe section 3.4, IANA).
pub const PORT: u16 = 4790;
/// Two bits of version, from the third one on.
const VERSION_SHIFT: u32 = 28;
/// The identifier is valid.
const VNI_VALID: u32 = 0x0800_0000;
/// There is a next protocol; without, an Ethernet frame follows, as in VXLAN.
const HAS_NEXT: u32 = 0x0400_0000;
/// The packet is for operation and maintenance.
const OAM: u32 = 0x0100_0000;

/// The header, 8 bytes; the payload's type is a number of [`crate::nsh::next_protocol`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct VxlanGpeHeader {
    flags_next: U32,
    vni_reserved: U32,
}

impl Header for VxlanGpeHeader {
    const LAYER: Layer = Layer::VxlanGpe;

    /// Version 0, and the I flag must be set; reserved bits are ignored, as the draft says.
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let word = self.flags_next.get();
        let version = (word >> VERSION_SHIFT) as u8 & 3;
        if version != 0 {
            return Err(ParseError::new(Layer::VxlanGpe, Defect::BadVersion { version }));
        }
        if word & VNI_VALID == 0 {
            let defect = Defect::BadField { name: "flags", value: word >> 24 };
            return Err(ParseError::new(Layer::VxlanGpe, defect));
        }
        Ok(Extent { header_len: Self::LEN, end: available })
    }
}

impl VxlanGpeHeader {
    /// A header for the network `vni` (low 24 bits).
    #[must_use]
    #[inline]
    pub const fn new(vni: u32, next_protocol: u8) -> Self {
        let word = VNI_VALID | HAS_NEXT | next_protocol as u32;
        Self { flags_next: U32::new(word), vni_reserved: U32::new(vni << 8) }
    }

    /// Network identifier, 0 to 2^24 - 1.
    #[must_use]
    #[inline]
    pub fn vni(&self) -> u32 {
        self.vni_reserved.get() >> 8
    }

    /// Type of the payload: an Ethernet frame if the header does not contain one.
    #[must_use]
    #[inline]
    pub fn next_protocol(&self) -> u8 {
        match self.flags_next.get() & HAS_NEXT {
            0 => crate::nsh::next_protocol::ETHERNET,
            _ => self.flags_next.get() as u8,
        }
    }

    /// The packet is for operation and maintenance, no user's (O bit).
    #[must_use]
    #[inline]
    pub fn is_oam(&self) -> bool {
        self.flags_next.get() & OAM != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let header = VxlanGpeHeader::new(0xff12_3456, 4);
        assert_eq!(header.as_bytes(), [0x0c, 0, 0, 4, 0x12, 0x34, 0x56, 0]);
        assert_eq!((header.vni(), header.next_protocol(), header.is_oam()), (0x12_3456, 4, false));
        let parsed = |bytes: [u8; 8]| VxlanGpeHeader::parse(&bytes).map(|(header, _)| *header);
        assert_eq!(parsed([0x0c, 0, 0, 4, 0x12, 0x34, 0x56, 0]), Ok(header));
        assert_eq!(parsed([0x08, 0, 0, 9, 0, 0, 1, 0]).unwrap().next_protocol(), 3);
        assert!(parsed([0x0d, 0, 0, 4, 0, 0, 1, 0]).unwrap().is_oam());
        let defect = |bytes| parsed(bytes).unwrap_err().defect;
        assert_eq!(defect([0x1c, 0, 0, 4, 0, 0, 1, 0]), Defect::BadVersion { version: 1 });
        assert!(matches!(defect([4, 0, 0, 4, 0, 0, 1, 0]), Defect::BadField { value: 4, .. }));
        assert!(VxlanGpeHeader::parse(&[8; 7]).is_err());
    }
}
