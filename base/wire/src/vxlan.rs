//! VXLAN (RFC 7348 section 5).

use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP destination port (RFC 7348 section 5, IANA).
pub const PORT: u16 = 4789;
/// The flag that the identifier is valid, in the first word.
const VNI_VALID: u32 = 0x0800_0000;

/// The header, 8 bytes; an Ethernet frame follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct VxlanHeader {
    flags: U32,
    vni_reserved: U32,
}

impl Header for VxlanHeader {
    const LAYER: Layer = Layer::Vxlan;

    /// The I flag must be set; reserved bits are ignored, as the RFC says.
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        if self.flags.get() & VNI_VALID == 0 {
            let defect = Defect::BadField { name: "flags", value: self.flags.get() };
            return Err(ParseError::new(Layer::Vxlan, defect));
        }
        Ok(Extent { header_len: Self::LEN, end: available })
    }
}

impl VxlanHeader {
    /// A header for the network `vni` (low 24 bits).
    #[must_use]
    #[inline]
    pub const fn new(vni: u32) -> Self {
        Self { flags: U32::new(VNI_VALID), vni_reserved: U32::new(vni << 8) }
    }

    /// Network identifier, 0 to 2^24 - 1.
    #[must_use]
    #[inline]
    pub fn vni(&self) -> u32 {
        self.vni_reserved.get() >> 8
    }

    /// Sets the low 24 bits of `vni`.
    #[inline]
    pub fn set_vni(&mut self, vni: u32) {
        self.vni_reserved.set((self.vni_reserved.get() & 0xff) | (vni << 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifier() {
        let mut header = VxlanHeader::new(0xff12_3456);
        assert_eq!(header.as_bytes(), [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(header.vni(), 0x12_3456);
        header.set_vni(7);
        assert_eq!(header.vni(), 7);
        assert_eq!(VxlanHeader::parse(header.as_bytes()).unwrap().0, &header);
        assert!(VxlanHeader::parse(&[0; 8]).is_err());
        assert!(VxlanHeader::parse(&[8; 7]).is_err());
    }
}
