//! Ethernet II (IEEE 802.3 clause 3, type interpretation).

use crate::{Header, Layer, MacAddr};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// EtherTypes, from the IANA registry "IEEE 802 Numbers".
pub mod ethertype {
    /// Smallest value that is a type; smaller ones are 802.3 lengths.
    pub const MIN: u16 = 0x0600;
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// Transparent Ethernet bridging, in GRE (RFC 1701, RFC 7637).
    pub const TEB: u16 = 0x6558;
    /// Customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// MPLS, unicast (RFC 5332).
    pub const MPLS: u16 = 0x8847;
    /// MPLS with upstream-assigned label (RFC 5332).
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    /// PPPoE session (RFC 2516).
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// Service VLAN tag, the outer one of QinQ (IEEE 802.1ad).
    pub const QINQ: u16 = 0x88a8;
    /// Link layer discovery (IEEE 802.1AB).
    pub const LLDP: u16 = 0x88cc;
    /// Outer tag of QinQ before 802.1ad gave it a type of its own.
    pub const QINQ_OLD: u16 = 0x9100;
}

/// The header of a frame, 14 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EthernetHeader {
    dst: MacAddr,
    src: MacAddr,
    ethertype: U16,
}

impl Header for EthernetHeader {
    const LAYER: Layer = Layer::Ethernet;
}

impl EthernetHeader {
    /// A header from its fields.
    #[must_use]
    #[inline]
    pub const fn new(dst: MacAddr, src: MacAddr, ethertype: u16) -> Self {
        Self { dst, src, ethertype: U16::new(ethertype) }
    }

    accessors! {
        /// Destination address.
        dst, set_dst: MacAddr;
        /// Source address.
        src, set_src: MacAddr;
        /// Type of the payload, see [`ethertype`]; below [`ethertype::MIN`] an 802.3 length.
        ethertype, set_ethertype: u16;
    }

    /// Sends the frame back where it came from.
    #[inline]
    pub fn swap_addresses(&mut self) {
        core::mem::swap(&mut self.dst, &mut self.src);
    }
}
