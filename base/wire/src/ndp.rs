//! Neighbour discovery for IPv6 (RFC 4861): messages, over the ICMPv6 header and their own fields.
//! A router solicitation has no own fields: its options follow the ICMPv6 header.

use crate::icmpv6::{Icmpv6Header, icmpv6_type};
use crate::{Defect, Extent, Header, Layer, MacAddr, ParseError};
use core::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The hop limit of every message; others come from beyond the link (RFC 4861 section 3.1).
pub const HOP_LIMIT: u8 = 255;

/// Flags of an advertisement, as [`NeighborMessage::flags`] gives them (RFC 4861 section 4.4).
pub mod flags {
    /// The sender is a router.
    pub const ROUTER: u32 = 0x8000_0000;
    /// Answers a solicitation.
    pub const SOLICITED: u32 = 0x4000_0000;
    /// Replaces the known address.
    pub const OVERRIDE: u32 = 0x2000_0000;
}

/// The group that a neighbour with address `target` listens to: ff02::1:ffXX:XXXX (RFC 4291
/// section 2.7.1).
#[must_use]
pub const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(
        0xff02_0000_0000_0000_0000_0001_ff00_0000 | (target.to_bits() & 0x00ff_ffff),
    )
}

/// The message must be one of `types`, with code 0 (RFC 4861 sections 6.1 and 7.1).
#[inline]
fn check(icmp: &Icmpv6Header, types: [u8; 2]) -> Result<(), ParseError> {
    let invalid = |name, value: u8| {
        let defect = Defect::BadField { name, value: u32::from(value) };
        Err(ParseError::new(Layer::Ndp, defect))
    };
    match (icmp.icmp_type(), icmp.code()) {
        (kind, 0) if types.contains(&kind) => Ok(()),
        (kind, 0) => invalid("type", kind),
        (_, code) => invalid("code", code),
    }
}

/// Neighbour solicitation or advertisement, 24 bytes; [`Header::parse`] gives the options behind.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct NeighborMessage {
    icmp: Icmpv6Header,
    target: [u8; 16],
}

impl Header for NeighborMessage {
    const LAYER: Layer = Layer::Ndp;

    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        use icmpv6_type::{NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION};
        check(&self.icmp, [NEIGHBOR_SOLICITATION, NEIGHBOR_ADVERTISEMENT])?;
        Ok(Extent { header_len: Self::LEN, end: available })
    }
}

impl NeighborMessage {
    /// A solicitation for `target`.
    #[must_use]
    pub fn solicitation(target: Ipv6Addr) -> Self {
        let icmp = Icmpv6Header::new(icmpv6_type::NEIGHBOR_SOLICITATION, 0, 0);
        Self { icmp, target: target.octets() }
    }

    /// I have `target`; with the [`flags`].
    #[must_use]
    pub fn advertisement(target: Ipv6Addr, flags: u32) -> Self {
        let icmp = Icmpv6Header::new(icmpv6_type::NEIGHBOR_ADVERTISEMENT, 0, flags);
        Self { icmp, target: target.octets() }
    }

    accessors! {
        /// The address asked for or had, as bytes.
        target, set_target: [u8; 16];
    }

    /// The ICMPv6 header.
    #[must_use]
    #[inline]
    pub fn icmp(&self) -> &Icmpv6Header {
        &self.icmp
    }

    /// The address asked for or had.
    #[must_use]
    #[inline]
    pub fn target_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.target)
    }

    /// A solicitation, not an advertisement.
    #[must_use]
    #[inline]
    pub fn is_solicitation(&self) -> bool {
        self.icmp.icmp_type() == icmpv6_type::NEIGHBOR_SOLICITATION
    }

    /// The [`flags`] of an advertisement.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> u32 {
        self.icmp.rest()
    }

    /// Writes the message and its `link` address option, if any, to the front of `out`, its
    /// checksum right for the addresses; gives its length, 24 or 32.
    ///
    /// # Errors
    /// `TooShort` when `out` is.
    pub fn emit_message(
        &self,
        addresses: (&[u8; 16], &[u8; 16]),
        link: Option<MacAddr>,
        out: &mut [u8],
    ) -> Result<usize, ParseError> {
        let mut body = [0; 24];
        body[..16].copy_from_slice(&self.target);
        let mut len = 16;
        if let Some(mac) = link {
            let solicits = self.is_solicitation();
            let kind = if solicits { option::SOURCE_LINK } else { option::TARGET_LINK };
            body[16..18].copy_from_slice(&[kind, 1]);
            body[18..].copy_from_slice(&mac.0);
            len = 24;
        }
        self.icmp.emit_message(addresses, &body[..len], out)
    }
}

/// Router advertisement, 16 bytes; [`Header::parse`] gives the options behind.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RouterAdvertisement {
    icmp: Icmpv6Header,
    reachable_ms: U32,
    retransmit_ms: U32,
}

impl Header for RouterAdvertisement {
    const LAYER: Layer = Layer::Ndp;

    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        check(&self.icmp, [icmpv6_type::ROUTER_ADVERTISEMENT; 2])?;
        Ok(Extent { header_len: Self::LEN, end: available })
    }
}

impl RouterAdvertisement {
    accessors! {
        /// How long a neighbour counts as reachable, in ms; 0 for not said.
        reachable_ms, set_reachable_ms: u32;
        /// Time between solicitations, in ms; 0 for not said.
        retransmit_ms, set_retransmit_ms: u32;
    }

    /// Hop limit for packets of hosts; 0 for not said.
    #[must_use]
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        (self.icmp.rest() >> 24) as u8
    }

    /// Flags byte: M 0x80, O 0x40.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> u8 {
        (self.icmp.rest() >> 16) as u8
    }

    /// How long it is a default router, in seconds; 0 for not at all.
    #[must_use]
    #[inline]
    pub fn lifetime_s(&self) -> u16 {
        self.icmp.rest() as u16
    }
}

/// Redirect, 40 bytes; [`Header::parse`] gives the options behind.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Redirect {
    icmp: Icmpv6Header,
    target: [u8; 16],
    destination: [u8; 16],
}

impl Header for Redirect {
    const LAYER: Layer = Layer::Ndp;

    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        check(&self.icmp, [icmpv6_type::REDIRECT; 2])?;
        Ok(Extent { header_len: Self::LEN, end: available })
    }
}

impl Redirect {
    accessors! {
        /// The better first hop.
        target, set_target: [u8; 16];
        /// For packets to this address.
        destination, set_destination: [u8; 16];
    }
}

/// Kinds of options (IANA "IPv6 Neighbor Discovery Option Formats").
pub mod option {
    /// Link address of the sender.
    pub const SOURCE_LINK: u8 = 1;
    /// Link address of the target.
    pub const TARGET_LINK: u8 = 2;
    /// Prefix information.
    pub const PREFIX: u8 = 3;
    /// Front of the redirected packet.
    pub const REDIRECTED: u8 = 4;
    /// MTU of the link.
    pub const MTU: u8 = 5;
}

/// Prefix information without its kind and length, 30 bytes (RFC 4861 section 4.6.2).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct PrefixInformation {
    prefix_len: u8,
    flags: u8,
    valid_s: U32,
    preferred_s: U32,
    reserved: U32,
    prefix: [u8; 16],
}

impl PrefixInformation {
    accessors! {
        /// Length of the prefix in bits, 0 to 128 when legal.
        prefix_len, set_prefix_len: u8;
        /// L (on link) 0x80, A (autonomous) 0x40.
        flags, set_flags: u8;
        /// How long it is valid, in seconds; all ones for ever.
        valid_s, set_valid_s: u32;
        /// How long addresses from it are preferred, in seconds; all ones for ever.
        preferred_s, set_preferred_s: u32;
        /// The prefix.
        prefix, set_prefix: [u8; 16];
    }
}

/// One option. A known type of invalid length is [`NdpOption::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NdpOption<'a> {
    /// Ethernet address of the sender.
    SourceLink(MacAddr),
    /// Ethernet address of the target.
    TargetLink(MacAddr),
    /// Prefix information.
    Prefix(&'a PrefixInformation),
    /// Front of the redirected packet, IPv6 header first.
    Redirected(&'a [u8]),
    /// MTU of the link in bytes.
    Mtu(u32),
    /// Any other.
    Other {
        /// Its first byte.
        kind: u8,
        /// The data after type and length.
        data: &'a [u8],
    },
}

impl<'a> NdpOption<'a> {
    fn new(kind: u8, data: &'a [u8]) -> Self {
        let other = Self::Other { kind, data };
        match (kind, data) {
            (option::SOURCE_LINK, &[a, b, c, d, e, f]) => {
                Self::SourceLink(MacAddr([a, b, c, d, e, f]))
            }
            (option::TARGET_LINK, &[a, b, c, d, e, f]) => {
                Self::TargetLink(MacAddr([a, b, c, d, e, f]))
            }
            (option::PREFIX, data) => {
                PrefixInformation::ref_from_bytes(data).map_or(other, Self::Prefix)
            }
            (option::REDIRECTED, [_, _, _, _, _, _, packet @ ..]) => Self::Redirected(packet),
            (option::MTU, &[_, _, a, b, c, d]) => Self::Mtu(u32::from_be_bytes([a, b, c, d])),
            _ => other,
        }
    }
}

/// The options in their order. A length of 0, for which the message must be dropped (RFC 4861
/// section 4.6), or one too long is the last item.
#[derive(Clone, Debug)]
pub struct NdpOptions<'a>(&'a [u8]);

impl<'a> NdpOptions<'a> {
    /// Over the bytes behind a message's own fields.
    #[must_use]
    #[inline]
    pub const fn new(options: &'a [u8]) -> Self {
        Self(options)
    }
}

impl<'a> Iterator for NdpOptions<'a> {
    type Item = Result<NdpOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = core::mem::take(&mut self.0);
        let (kind, len) = match *bytes {
            [] => return None,
            [_, 0, ..] => {
                let defect = Defect::BadHeaderLength { header_len: 0 };
                return Some(Err(ParseError::new(Layer::Ndp, defect)));
            }
            [kind, len, ..] => (kind, usize::from(len) * 8),
            [_] => return Some(Err(ParseError::too_short(Layer::Ndp, 8, 1))),
        };
        let Some((option, rest)) = bytes.split_at_checked(len) else {
            return Some(Err(ParseError::too_short(Layer::Ndp, len, bytes.len())));
        };
        self.0 = rest;
        Some(Ok(NdpOption::new(kind, option.get(2..).unwrap_or(&[]))))
    }
}

#[cfg(test)]
mod tests;
