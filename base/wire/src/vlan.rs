//! VLAN tags: IEEE 802.1Q, and two of them for QinQ (IEEE 802.1ad).
//!
//! A tag's type precedes it, in the place of the EtherType; so a tag follows an EtherType for which
//! [`is_tag`] holds.

use crate::ethernet::ethertype;
use crate::{Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most tags that [`skip_tags`] walks over; the rest is left as payload.
pub const MAX_TAGS: usize = 4;

/// Tag control information and the type of the payload, 4 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct VlanTag {
    tci: U16,
    ethertype: U16,
}

impl Header for VlanTag {
    const LAYER: Layer = Layer::Vlan;
}

impl VlanTag {
    /// A tag from its control information, see [`tci`], and the type of the payload.
    #[must_use]
    #[inline]
    pub const fn new(tci: u16, ethertype: u16) -> Self {
        Self { tci: U16::new(tci), ethertype: U16::new(ethertype) }
    }

    accessors! {
        /// Priority, drop eligibility and VLAN identifier as they stand.
        tci, set_tci: u16;
        /// Type of the payload, see [`ethertype`]; perhaps another tag.
        ethertype, set_ethertype: u16;
    }

    /// VLAN identifier, 0 to 4095; 0 is a priority tag.
    #[must_use]
    #[inline]
    pub fn vid(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// Sets the low 12 bits of `vid`.
    #[inline]
    pub fn set_vid(&mut self, vid: u16) {
        self.tci = U16::new((self.tci() & 0xf000) | (vid & 0x0fff));
    }

    /// Priority code point, 0 to 7.
    #[must_use]
    #[inline]
    pub fn pcp(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// Sets the low three bits of `pcp`.
    #[inline]
    pub fn set_pcp(&mut self, pcp: u8) {
        self.tci = U16::new((self.tci() & 0x1fff) | (u16::from(pcp) << 13));
    }

    /// Drop eligible.
    #[must_use]
    #[inline]
    pub fn dei(&self) -> bool {
        self.tci() & 0x1000 != 0
    }
}

/// Control information from priority code point (low 3 bits), drop eligibility and VLAN
/// identifier (low 12 bits).
#[must_use]
#[inline]
pub const fn tci(pcp: u8, dei: bool, vid: u16) -> u16 {
    ((pcp as u16) << 13) | ((dei as u16) << 12) | (vid & 0x0fff)
}

/// A VLAN tag follows this EtherType.
#[must_use]
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::QINQ | ethertype::QINQ_OLD)
}

/// Walks over the tags (at most [`MAX_TAGS`]) that follow `ethertype`: the type behind them and
/// the bytes it is the type of.
///
/// # Errors
/// `TooShort` when a tag is cut.
#[inline]
pub fn skip_tags(mut ethertype: u16, mut bytes: &[u8]) -> Result<(u16, &[u8]), ParseError> {
    for _ in 0..MAX_TAGS {
        if !is_tag(ethertype) {
            break;
        }
        let (tag, rest) = VlanTag::view(bytes)?;
        (ethertype, bytes) = (tag.ethertype(), rest);
    }
    Ok((ethertype, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let mut tag = VlanTag::new(tci(5, true, 0x123), ethertype::IPV4);
        assert_eq!((tag.pcp(), tag.dei(), tag.vid()), (5, true, 0x123));
        tag.set_vid(0xffff);
        tag.set_pcp(2);
        assert_eq!(tag.tci(), 0x5fff);
        assert_eq!(tag.ethertype(), 0x0800);
    }

    #[test]
    fn two_tags_then_ip() {
        let bytes = [0, 1, 0x81, 0, 0, 2, 8, 0, 0x45];
        assert_eq!(skip_tags(ethertype::QINQ, &bytes), Ok((ethertype::IPV4, &bytes[8..])));
        assert_eq!(skip_tags(ethertype::IPV4, &bytes), Ok((ethertype::IPV4, &bytes[..])));
        assert!(skip_tags(ethertype::QINQ, &bytes[..7]).is_err());
    }

    #[test]
    fn walk_is_bounded() {
        let bytes = [0x81, 0].repeat(32);
        assert_eq!(skip_tags(ethertype::VLAN, &bytes), Ok((0x8100, &bytes[MAX_TAGS * 4..])));
    }
}
