//! The translated kinds: protocols with ports, and ICMP queries by their identifier.

use thruway_wire::icmp::IcmpHeader;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::{Header, flow::FiveTuple, icmp, ip_protocol};

/// A sort of mapping; each has ports of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// TCP.
    Tcp = 0,
    /// UDP.
    Udp = 1,
    /// ICMP queries: the identifier serves as both ports (RFC 5508 section 3).
    Icmp = 2,
}

impl Kind {
    /// All of them, by number.
    pub(super) const ALL: [Kind; 3] = [Kind::Tcp, Kind::Udp, Kind::Icmp];

    /// Of a protocol number.
    #[inline]
    pub(super) fn of_protocol(protocol: u8) -> Option<Kind> {
        match protocol {
            ip_protocol::TCP => Some(Kind::Tcp),
            ip_protocol::UDP => Some(Kind::Udp),
            ip_protocol::ICMP => Some(Kind::Icmp),
            _ => None,
        }
    }

    /// Of its number.
    pub(super) fn of_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).copied()
    }

    /// The protocol number.
    pub(super) fn protocol(self) -> u8 {
        match self {
            Kind::Tcp => ip_protocol::TCP,
            Kind::Udp => ip_protocol::UDP,
            Kind::Icmp => ip_protocol::ICMP,
        }
    }

    /// As users write it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
            Kind::Icmp => "icmp",
        }
    }
}

/// The five-tuple of a packet, from its IPv4 header on, as the flow manager sees it: of an ICMP
/// query the identifier twice. `None` of anything that is not translated.
pub(crate) fn tuple_of(network: &[u8]) -> Option<(Kind, FiveTuple<u32>)> {
    let (header, payload) = Ipv4Header::parse(network).ok()?;
    let kind = Kind::of_protocol(header.protocol()).filter(|_| !header.is_fragment())?;
    let mut tuple = FiveTuple::of_ipv4(header, payload);
    if kind == Kind::Icmp {
        let (query, _) = IcmpHeader::view(payload).ok()?;
        if icmp::is_error(query.icmp_type()) {
            return None;
        }
        (tuple.src_port, tuple.dst_port) = (query.ident(), query.ident());
    }
    Some((kind, tuple))
}
