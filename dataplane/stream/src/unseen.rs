//! Packets that no function can inspect although they may carry its protocol: packets without a
//! session that a receiver accepts all the same.

use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::ip_protocol;
use thruway_wire::ipv4::{Ipv4Header, MORE_FRAGMENTS, OFFSET_MASK};
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext::{self, UpperLayer};

/// Why such a packet cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// It is a fragment: its payload begins or ends in another packet.
    Fragment,
    /// It is IP, but its headers hide the payload's protocol: they are truncated, contradict
    /// themselves, or are too many.
    Hidden,
    /// It is a whole packet of the protocol, and has no session.
    NoSession,
}

/// Names and meanings of drop reasons, in the order of [`Unseen`].
pub const REASONS: [(&str, &str); 3] = [
    ("fragment", "a fragment, which no function can be shown: put an IPReassembler in front"),
    ("hidden", "IP headers that hide their payload, so no function can inspect it"),
    ("no-session", "there is no session in which functions could be shown it"),
];

/// Why a packet without a session cannot be shown to functions of `protocol` (0: all protocols of
/// IP). `None`: it carries nothing of that protocol.
pub fn unseen(packet: &Packet, protocol: u8) -> Option<Unseen> {
    let ip = network(packet)?;
    let found = match ip.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(ip),
        Some(6) => ipv6(ip),
        _ => None,
    };
    let Some((carried, is_fragment)) = found else { return Some(Unseen::Hidden) };
    // Extension headers of a fragment may continue in another one.
    let is_of_it = protocol == 0 || carried == protocol;
    let may_be = is_of_it || (is_fragment && ipv6_ext::is_extension(carried));
    match (is_fragment, may_be) {
        (true, true) => Some(Unseen::Fragment),
        (false, true) if protocol != 0 => Some(Unseen::NoSession),
        _ => None,
    }
}

/// Whether it is a fragment of IPv4 that a classifier has marked; also one that has its place in
/// the chain, as what it carries is known in part.
#[inline]
pub fn is_fragment4(packet: &Packet) -> bool {
    match *packet.network() {
        [first, _, _, _, _, _, a, b, ..] if first >> 4 == 4 => {
            u16::from_be_bytes([a, b]) & (MORE_FRAGMENTS | OFFSET_MASK) != 0
        }
        _ => false,
    }
}

/// The bytes from the IP header on, also where a classifier found that header wrong and marks none.
fn network(packet: &Packet) -> Option<&[u8]> {
    if packet.network_offset().is_some() {
        return Some(packet.network());
    }
    let data = packet.data();
    if packet.mac_offset() != Some(0) {
        // A classifier of packets that begin with IP marks nothing.
        return Some(data).filter(|data| data.first().is_some_and(|b| [4, 6].contains(&(b >> 4))));
    }
    let mut at = 12;
    loop {
        let kind = u16::from_be_bytes(*data.get(at..)?.first_chunk::<2>()?);
        match kind {
            0x0800 | 0x86dd => return data.get(at + 2..),
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            _ => return None,
        }
    }
}

/// Protocol, and whether it is a fragment.
fn ipv4(bytes: &[u8]) -> Option<(u8, bool)> {
    let (header, _, _) = Ipv4Header::parse_with_options(bytes).ok()?;
    Some((header.protocol(), header.is_fragment()))
}

fn ipv6(bytes: &[u8]) -> Option<(u8, bool)> {
    let (header, payload) = Ipv6Header::parse(bytes).ok()?;
    let UpperLayer { protocol, fragment, .. } =
        ipv6_ext::upper_layer(header.next_header(), payload).ok()?;
    // Hop-by-hop options that are not first end the walk: a receiver refuses them (RFC 8200 4.1).
    let is_fragment = fragment.is_some_and(|fragment| !fragment.is_atomic());
    Some((
        if protocol == ip_protocol::HOP_BY_HOP { ip_protocol::NO_NEXT } else { protocol },
        is_fragment,
    ))
}

#[cfg(test)]
mod tests {
    use thruway_wire::ip_protocol::{TCP, UDP};

    use super::*;
    use crate::testing::{segment, segment6};

    /// As a classifier leaves a packet without a session.
    fn made(mut packet: Packet, change: impl FnOnce(&mut Vec<u8>)) -> Packet {
        let mut bytes = packet.data().to_vec();
        change(&mut bytes);
        packet = Packet::new(&bytes).unwrap();
        packet.set_mac_offset(0);
        packet
    }

    /// Puts bytes behind the IPv6 header, with `first` as its next header.
    fn extended(first: u8, extensions: &[u8]) -> Packet {
        made(segment6(1, 1, 0x18, b"word"), |bytes| {
            bytes[20] = first;
            let len = u16::from_be_bytes([bytes[18], bytes[19]]) + extensions.len() as u16;
            bytes[18..20].copy_from_slice(&len.to_be_bytes());
            bytes.splice(54..54, extensions.iter().copied());
        })
    }

    #[test]
    fn fragments_of_ipv4() {
        for field in [0x2000u16, 0x2001, 0x0001, 0x1fff] {
            let packet = made(segment(1, 1, 0x18, b"word"), |bytes| {
                bytes[20..22].copy_from_slice(&field.to_be_bytes());
            });
            assert_eq!(unseen(&packet, TCP), Some(Unseen::Fragment), "{field:04x}");
            assert_eq!(unseen(&packet, 0), Some(Unseen::Fragment));
            let mut marked = packet;
            marked.set_network(14, 20);
            assert!(is_fragment4(&marked));
            let packet = marked;
            assert_eq!(unseen(&packet, UDP), None);
        }
    }

    #[test]
    fn fragments_of_ipv6() {
        let fragment = |next, field: u16| {
            let [a, b] = field.to_be_bytes();
            [next, 0, a, b, 0, 0, 0, 1]
        };
        for field in [1, 8, 9, 0xfff8] {
            assert_eq!(unseen(&extended(44, &fragment(6, field)), TCP), Some(Unseen::Fragment));
            assert_eq!(unseen(&extended(44, &fragment(17, field)), TCP), None);
        }
        // TCP may stand behind the options, in this fragment or in the next.
        assert_eq!(unseen(&extended(44, &fragment(60, 8)), TCP), Some(Unseen::Fragment));
        // An atomic one is a whole packet (RFC 6946).
        assert_eq!(unseen(&extended(44, &fragment(6, 0)), TCP), Some(Unseen::NoSession));
    }

    #[test]
    fn extensions_that_are_too_many_or_cut_short() {
        let options = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
        assert_eq!(unseen(&extended(60, &options), TCP), Some(Unseen::Hidden));
        assert_eq!(unseen(&extended(60, &[6, 200, 1, 4, 0, 0, 0, 0]), UDP), Some(Unseen::Hidden));
        let tags = made(segment(1, 1, 0x18, b"word"), |bytes| {
            bytes.splice(12..12, [0x81, 0, 0, 1].repeat(4));
        });
        assert_eq!(unseen(&tags, TCP), Some(Unseen::NoSession));
    }

    #[test]
    fn what_carries_nothing_of_it_passes() {
        let arp = made(segment(1, 1, 0x18, b"word"), |bytes| bytes[13] = 6);
        let udp = made(segment(1, 1, 0x18, b"word"), |bytes| bytes[23] = UDP);
        assert_eq!([unseen(&arp, TCP), unseen(&udp, TCP)], [None; 2]);
        assert_eq!(unseen(&udp, UDP), Some(Unseen::NoSession));
        assert_eq!(unseen(&udp, 0), None);
    }
}
