//! Whether a card that marked a packet has read it as the chain does.

use thruway_wire::ip_protocol;

use crate::drop_table::{
    ERRORS4, ERRORS6, ETHERNET_LEN, EXTENSIONS, ICMP, ICMPV6, IPV4, IPV6, VLAN,
};

/// Below, the field is a length (IEEE 802.3, section 3.2.6).
const ETHERTYPE_MIN: u16 = 0x600;
/// Lengths of the headers of IP without options (RFC 791 section 3.1, RFC 8200 section 3).
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;

/// Whether all cards read a frame's headers as the chain does: it has no VLAN tags, is a whole IP
/// packet without extension headers or no IP at all, and its headers are whole. With
/// `leaves_errors`, no ICMP error either: it may belong to a session.
pub fn is_plain(frame: &[u8], leaves_errors: bool) -> bool {
    let Some(kind) = half(frame, ETHERNET_LEN - 2) else { return false };
    match kind {
        IPV4 => is_plain_ipv4(frame, leaves_errors).unwrap_or(false),
        IPV6 => is_plain_ipv6(frame, leaves_errors).unwrap_or(false),
        _ => kind >= ETHERTYPE_MIN && !VLAN.contains(&kind),
    }
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk::<2>().map(|two| u16::from_be_bytes(*two))
}

fn is_plain_ipv4(frame: &[u8], leaves_errors: bool) -> Option<bool> {
    let ip = frame.get(ETHERNET_LEN..)?;
    let head = ip.first_chunk::<IPV4_LEN>()?;
    let header_len = usize::from(head[0] & 0x0f) * 4;
    let is_whole = head[0] >> 4 == 4 && header_len >= IPV4_LEN && half(ip, 6)? & 0x3fff == 0;
    let upper = ip.get(header_len..usize::from(half(ip, 2)?))?;
    let is_error = head[9] == ICMP && ERRORS4.contains(upper.first().unwrap_or(&0));
    Some(is_whole && is_whole_upper(head[9], upper) && !(leaves_errors && is_error))
}

fn is_plain_ipv6(frame: &[u8], leaves_errors: bool) -> Option<bool> {
    let ip = frame.get(ETHERNET_LEN..)?;
    let head = ip.first_chunk::<IPV6_LEN>()?;
    let upper = ip.get(IPV6_LEN..IPV6_LEN + usize::from(half(ip, 4)?))?;
    let is_whole = head[0] >> 4 == 6 && !EXTENSIONS.contains(&head[6]);
    let is_error = head[6] == ICMPV6 && ERRORS6.contains(upper.first().unwrap_or(&0));
    Some(is_whole && is_whole_upper(head[6], upper) && !(leaves_errors && is_error))
}

/// Whether the header behind IP is there (RFC 9293 section 3.1, RFC 768, RFC 792, RFC 4443, RFC
/// 9260).
fn is_whole_upper(protocol: u8, upper: &[u8]) -> bool {
    let least = match protocol {
        ip_protocol::TCP => 20,
        ip_protocol::UDP | ICMP | ICMPV6 => 8,
        _ if ip_protocol::has_ports(protocol) => 12,
        _ => 0,
    };
    upper.len() >= least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u16, ip: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &kind.to_be_bytes(), ip].concat()
    }

    fn ipv4(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 28, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip.extend([0, 53, 0, 54, 0, 8, 0, 0]);
        change(&mut ip);
        frame(IPV4, &ip)
    }

    #[test]
    fn plain_frames_are_told_from_others() {
        assert!(is_plain(&ipv4(|_| {}), true));
        assert!(is_plain(&frame(0x0806, &[0; 28]), true));
        let mut six = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        six.resize(48, 1);
        assert!(is_plain(&frame(IPV6, &six), true));
        six[6] = 44;
        assert!(!is_plain(&frame(IPV6, &six), true), "an extension header");
        let others: [fn(&mut Vec<u8>); 6] = [
            |ip| ip[0] = 0x65,
            |ip| ip[0] = 0x44,
            |ip| ip[3] = 27,
            |ip| ip[3] = 29,
            |ip| ip[6] = 0x20,
            |ip| ip[7] = 1,
        ];
        for (number, change) in others.into_iter().enumerate() {
            assert!(!is_plain(&ipv4(change), true), "{number}");
        }
        let error = ipv4(|ip| (ip[9], ip[20]) = (1, 3));
        assert_eq!((is_plain(&error, true), is_plain(&error, false)), (false, true));
        for kind in VLAN.into_iter().chain([0x0026]) {
            assert!(!is_plain(&frame(kind, &[0; 60]), false), "{kind:x}");
        }
        assert!(!is_plain(&[0; 13], false));
    }
}
