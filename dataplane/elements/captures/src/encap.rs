//! Link types by the names that configurations use, and where IP begins behind them.

use thruway_packet::Packet;
use thruway_port::capture::LinkType;

/// Names as ENCAP takes them and `encap` handlers give them. The first row of a type is the one
/// given. (Types that only pass through here are known by their registry number alone.)
const NAMES: [(&str, LinkType); 18] = [
    ("ETHER", LinkType::Ethernet),
    ("IP", LinkType::Raw),
    ("IP", LinkType::Ipv4),
    ("IP6", LinkType::Ipv6),
    ("NULL", LinkType::Null),
    ("LOOP", LinkType::Loop),
    ("PPP", LinkType::Ppp),
    ("PPP_HDLC", LinkType::PppHdlc),
    ("PPP_ETHER", LinkType::Pppoe),
    ("802_11", LinkType::Ieee80211),
    ("802_11_RADIO", LinkType::Radiotap),
    ("SLL", LinkType::LinuxSll),
    ("SLL2", LinkType::LinuxSll2),
    ("FDDI", LinkType::Unknown(10)),
    ("ATM", LinkType::Unknown(100)),
    ("HDLC", LinkType::Unknown(104)),
    ("PRISM", LinkType::Unknown(119)),
    ("SUNATM", LinkType::Unknown(123)),
];

/// The link types after whose headers `ip_offset` finds IP.
pub const WITH_IP: &[LinkType] = &[
    LinkType::Ethernet,
    LinkType::Raw,
    LinkType::Ipv4,
    LinkType::Ipv6,
    LinkType::Null,
    LinkType::Loop,
    LinkType::LinuxSll,
    LinkType::LinuxSll2,
];

const IPV4: [u8; 2] = [0x08, 0x00];
const VLAN: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xA8]];

/// The value of an `encap` handler.
pub fn name(link: LinkType) -> String {
    let row = NAMES.iter().find(|row| row.1 == link);
    row.map_or_else(|| link.number().to_string(), |row| row.0.to_owned())
}

/// The type that ENCAP `text` means: a name, or a number of the registry.
pub fn parse(text: &str) -> Result<LinkType, String> {
    let named = NAMES.iter().find(|row| row.0 == text).map(|row| row.1);
    let number = || text.parse().ok().map(LinkType::from_number);
    named.or_else(number).ok_or_else(|| {
        let mut names: Vec<&str> = NAMES.iter().map(|row| row.0).collect();
        names.dedup();
        format!("'{text}' is not an encapsulation; write one of {}", names.join(", "))
    })
}

/// Where an Ethernet type stands at `at`, or behind up to two VLAN tags: offset of what follows, if
/// that is IPv4.
fn behind_ether_type(bytes: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..3 {
        let kind: [u8; 2] = bytes.get(at..at + 2)?.try_into().ok()?;
        if kind == IPV4 {
            return Some(at + 2);
        }
        if !VLAN.contains(&kind) {
            return None;
        }
        at += 4;
    }
    None
}

/// Offset of the IPv4 header in a frame of this type; `None` where there is none.
fn ip_offset(link: LinkType, bytes: &[u8]) -> Option<usize> {
    match link {
        LinkType::Ethernet => behind_ether_type(bytes, 12),
        LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => Some(0),
        LinkType::LinuxSll => behind_ether_type(bytes, 14),
        LinkType::LinuxSll2 => (bytes.get(..2)? == IPV4).then_some(20),
        // The family of IPv4 is 2 everywhere, in either byte order.
        LinkType::Null | LinkType::Loop => {
            matches!(bytes.get(..4)?, [2, 0, 0, 0] | [0, 0, 0, 2]).then_some(4)
        }
        _ => None,
    }
}

/// Marks the IPv4 header of a packet of this type. False when there is none that is whole.
pub fn mark_ip(packet: &mut Packet, link: LinkType) -> bool {
    let Some(at) = ip_offset(link, packet.data()) else { return false };
    let Some(&first) = packet.data().get(at) else { return false };
    let header_len = usize::from(first & 0xF) * 4;
    if first >> 4 != 4 || header_len < 20 || packet.len() < at + header_len {
        return false;
    }
    packet.set_network(at, header_len);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_convert_in_both_directions() {
        for (text, link) in NAMES {
            let parsed = parse(text).expect("a name of the table");
            assert_eq!(name(parsed), text);
            assert_eq!(name(link), text);
        }
        assert_eq!(parse("147"), Ok(LinkType::Unknown(147)));
        assert!(parse("ETHR").unwrap_err().contains("ETHER"));
    }

    #[test]
    fn ip_is_found_behind_each_header_and_nowhere_else() {
        let ip = [&[0x45][..], &[0; 19]].concat();
        let frame = |head: &[u8]| [head, &ip].concat();
        let ether = frame(&[&[0; 12][..], &IPV4].concat());
        let tagged = frame(&[&[0; 12][..], &[0x81, 0, 0, 5], &IPV4].concat());
        let found = |link, bytes: &[u8]| {
            let mut packet = Packet::new(bytes).expect("memory");
            mark_ip(&mut packet, link).then(|| packet.network_offset())
        };
        assert_eq!(found(LinkType::Ethernet, &ether), Some(Some(14)));
        assert_eq!(found(LinkType::Ethernet, &tagged), Some(Some(18)));
        assert_eq!(found(LinkType::Raw, &ip), Some(Some(0)));
        assert_eq!(found(LinkType::Null, &frame(&[2, 0, 0, 0])), Some(Some(4)));
        assert_eq!(
            found(LinkType::LinuxSll, &frame(&[&[0; 14][..], &IPV4].concat())),
            Some(Some(16))
        );
        for len in 0..ether.len() {
            assert_eq!(found(LinkType::Ethernet, &ether[..len]), None, "cut to {len}");
        }
        assert_eq!(found(LinkType::Ieee80211, &ether), None);
    }
}
