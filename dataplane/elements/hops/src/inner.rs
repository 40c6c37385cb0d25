//! What travels in a header of a hop: one of a few protocols, which every such header has a number
//! for.

use thruway_wire::ethernet::ethertype;
use thruway_wire::geneve;
use thruway_wire::nsh::next_protocol;

/// The first header of a packet, as in the argument PROTOCOL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inner {
    /// An IPv4 or IPv6 header.
    Ip,
    /// An Ethernet header.
    Ethernet,
    /// A network service header.
    Nsh,
}

/// The words of PROTOCOL, in the order of [`Inner::ALL`].
pub(crate) const WORDS: &[&str] = &["ip", "ethernet", "nsh"];
/// Those of what a network service header carries.
pub(crate) const PLAIN_WORDS: &[&str] = &["ip", "ethernet"];

impl Inner {
    pub(crate) const ALL: [Inner; 3] = [Inner::Ip, Inner::Ethernet, Inner::Nsh];

    /// The number of NSH and VXLAN-GPE for a packet; `None` where it does not begin with this.
    #[inline]
    pub(crate) fn next_protocol(self, bytes: &[u8]) -> Option<u8> {
        match (self, bytes.first()? >> 4) {
            (Inner::Ip, 4) => Some(next_protocol::IPV4),
            (Inner::Ip, 6) => Some(next_protocol::IPV6),
            (Inner::Ip, _) => None,
            (Inner::Ethernet, _) => Some(next_protocol::ETHERNET),
            (Inner::Nsh, _) => Some(next_protocol::NSH),
        }
    }

    /// Whether this is what the number of NSH and VXLAN-GPE stands for.
    #[inline]
    pub(crate) fn is_next_protocol(self, number: u8) -> bool {
        match self {
            Inner::Ip => matches!(number, next_protocol::IPV4 | next_protocol::IPV6),
            Inner::Ethernet => number == next_protocol::ETHERNET,
            Inner::Nsh => number == next_protocol::NSH,
        }
    }
}

/// The EtherType of what a number of NSH and VXLAN-GPE stands for, for Geneve.
#[inline]
pub(crate) fn ethertype_of(number: u8) -> u16 {
    match number {
        next_protocol::IPV4 => ethertype::IPV4,
        next_protocol::IPV6 => ethertype::IPV6,
        next_protocol::NSH => geneve::NSH,
        _ => ethertype::TEB,
    }
}

/// The reverse; `None` for what no hop carries.
#[inline]
pub(crate) fn number_of(ethertype: u16) -> Option<u8> {
    match ethertype {
        ethertype::IPV4 => Some(next_protocol::IPV4),
        ethertype::IPV6 => Some(next_protocol::IPV6),
        geneve::NSH => Some(next_protocol::NSH),
        ethertype::TEB => Some(next_protocol::ETHERNET),
        _ => None,
    }
}
