//! Protocol numbers of IPv4's protocol field and IPv6's next header field, from the IANA registry
//! "Assigned Internet Protocol Numbers".

/// IPv6 hop-by-hop options (RFC 8200).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4 (RFC 792).
pub const ICMP: u8 = 1;
/// Group management for IPv4 (RFC 1112).
pub const IGMP: u8 = 2;
/// IPv4 in IP (RFC 2003).
pub const IPIP: u8 = 4;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// IPv6 in IP (RFC 2473).
pub const IPV6: u8 = 41;
/// IPv6 routing header (RFC 8200).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200).
pub const FRAGMENT: u8 = 44;
/// GRE (RFC 2784).
pub const GRE: u8 = 47;
/// Encapsulating security payload (RFC 4303).
pub const ESP: u8 = 50;
/// Authentication header (RFC 4302).
pub const AH: u8 = 51;
/// ICMP for IPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// Nothing follows (RFC 8200 section 4.7).
pub const NO_NEXT: u8 = 59;
/// IPv6 destination options (RFC 8200).
pub const DESTINATION_OPTIONS: u8 = 60;
/// OSPF (RFC 2328).
pub const OSPF: u8 = 89;
/// PIM (RFC 7761).
pub const PIM: u8 = 103;
/// VRRP (RFC 9568).
pub const VRRP: u8 = 112;
/// SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// IPv6 mobility header (RFC 6275).
pub const MOBILITY: u8 = 135;
/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;
/// MPLS in IP (RFC 4023).
pub const MPLS: u8 = 137;
/// Host identity protocol (RFC 7401).
pub const HIP: u8 = 139;
/// Shim6 (RFC 5533).
pub const SHIM6: u8 = 140;

/// Starts with a 16-bit source and a 16-bit destination port.
#[must_use]
#[inline]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// Names that configurations use for protocols.
const NAMES: &[(&str, u8)] = &[
    ("ah", AH),
    ("dccp", DCCP),
    ("esp", ESP),
    ("gre", GRE),
    ("icmp", ICMP),
    ("icmp6", ICMPV6),
    ("igmp", IGMP),
    ("ip6", IPV6),
    ("ipip", IPIP),
    ("mpls", MPLS),
    ("ospf", OSPF),
    ("pim", PIM),
    ("sctp", SCTP),
    ("tcp", TCP),
    ("udp", UDP),
    ("udplite", UDP_LITE),
    ("vrrp", VRRP),
];

/// The protocol that is called `name`, in lower case.
#[must_use]
pub fn from_name(name: &str) -> Option<u8> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, protocol)| *protocol)
}

/// The name of a protocol, in lower case.
#[must_use]
pub fn name(protocol: u8) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == protocol).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(
            [from_name("ipip"), from_name("udp"), from_name("UDP")],
            [Some(4), Some(17), None]
        );
        assert_eq!((name(6), name(255)), (Some("tcp"), None));
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
