//! The flow manager's parse of a packet, once, for all functions behind it: the positions of its
//! headers, and whether they are complete enough to belong to a session.

use thruway_packet::Packet;
use thruway_wire::checksum::Sum;
use thruway_wire::ip_protocol;
use thruway_wire::ipv6_ext::upper_layer;

use crate::plan::Family;
use crate::tcp::Segment;

/// The kind of a packet for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Its headers contradict themselves or are cut short.
    Malformed,
    /// A fragment, the first included: the ports of the others are not known.
    Fragment,
    /// A whole packet of a protocol with unknown ports.
    Unknown,
    /// A whole header with ports, or an ICMP query with its identifier.
    Whole,
    /// An ICMP error that quotes the beginning of a packet.
    Error,
}

/// The result of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedHeaders {
    /// Its kind.
    pub kind: Kind,
    /// Its version of IP.
    pub family: Family,
    /// Transport protocol; 0 if there is none.
    pub protocol: u8,
    /// TCP's flags, else 0.
    pub tcp_flags: u8,
    /// The TCP segment, else [`Segment::NONE`].
    pub segment: Segment,
    /// Source and destination port; of an ICMP query its identifier, twice.
    pub ports: [u16; 2],
}

const NOTHING: ParsedHeaders = ParsedHeaders {
    kind: Kind::NotIp,
    family: Family::Other,
    protocol: 0,
    tcp_flags: 0,
    segment: Segment::NONE,
    ports: [0; 2],
};

pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Most VLAN tags in front of an IP header.
const TAGS_MAX: usize = 2;

/// Bytes of the headers of Ethernet, IPv4 and TCP without options.
const USUAL: usize = 14 + 20 + 20;
/// Start of IPv4 and of its payload in such a frame.
pub(super) const USUAL_NETWORK: usize = 14;
/// See [`USUAL_NETWORK`].
pub(super) const USUAL_TRANSPORT: usize = 34;

/// The most usual frame, looked at in one piece: TCP or UDP, whole, in IPv4 without options, behind
/// an Ethernet header without tags. `None`: it is another, and [`parse_ethernet`] handles it.
/// PERF: one bounds check instead of one per header; 35.0 to 29.9 ns a packet in all
/// (`bench flow --case lookup/10k/uniform`, the two binaries in turn).
#[inline]
pub(super) fn parse_common(frame: &[u8]) -> Option<ParsedHeaders> {
    let head = frame.first_chunk::<USUAL>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let is_fragment = word(20) & 0x3fff != 0;
    if word(12) != ETHERTYPE_IPV4 || head[14] != 0x45 || is_fragment {
        return None;
    }
    let total = usize::from(word(16));
    let payload = total.checked_sub(20)?;
    if total > frame.len() - USUAL_NETWORK {
        return None;
    }
    let (shortest, len, tcp_flags) = match head[23] {
        ip_protocol::TCP => (20, usize::from(head[46] >> 4) * 4, head[47] & 0x3f),
        ip_protocol::UDP => (8, usize::from(word(38)), 0),
        _ => return None,
    };
    if !(shortest..=payload).contains(&len) {
        return None;
    }
    let segment = match head.last_chunk::<20>() {
        Some(header) if head[23] == ip_protocol::TCP => {
            let bytes = &frame[USUAL_TRANSPORT..USUAL_NETWORK + total];
            let pseudo = || pseudo4(&frame[USUAL_NETWORK..], payload);
            Segment::whole(header, bytes, (payload - len) as u16, pseudo)
        }
        _ => Segment::NONE,
    };
    Some(ParsedHeaders {
        kind: Kind::Whole,
        family: Family::V4,
        protocol: head[23],
        tcp_flags,
        segment,
        ports: [word(34), word(36)],
    })
}

/// The sum of the pseudo header of `len` bytes of TCP behind this IPv4 header.
#[cold]
fn pseudo4(network: &[u8], len: usize) -> Sum {
    let address = |at| network.get(at..).and_then(|rest| rest.first_chunk::<4>());
    let [src, dst] = [12, 16].map(|at| address(at).map_or(0, |bytes| u32::from_be_bytes(*bytes)));
    Sum::pseudo_v4(src, dst, ip_protocol::TCP, len)
}

/// The same behind an IPv6 header.
#[cold]
fn pseudo6(network: &[u8], len: usize) -> Sum {
    let address = |at| network.get(at..).and_then(|rest| rest.first_chunk::<16>());
    let [src, dst] = [8, 24].map(|at| address(at).copied().unwrap_or_default());
    Sum::pseudo_v6(&src, &dst, ip_protocol::TCP, len)
}

/// Looks at a packet that begins with an Ethernet header, and marks its headers.
#[inline]
pub fn parse_ethernet(packet: &mut Packet) -> ParsedHeaders {
    let data = packet.data();
    let Some(head) = data.first_chunk::<14>() else {
        packet.clear_network();
        return ParsedHeaders { kind: Kind::Malformed, ..NOTHING };
    };
    let mut ethertype = u16::from_be_bytes([head[12], head[13]]);
    let mut offset = 14;
    if ethertype == ETHERTYPE_IPV4 {
        packet.set_mac_offset(0);
        return parse_ipv4(packet, offset);
    }
    for _ in 0..TAGS_MAX {
        if !ETHERTYPES_VLAN.contains(&ethertype) {
            break;
        }
        let Some([_, _, a, b]) = data.get(offset..).and_then(|rest| rest.first_chunk::<4>()) else {
            packet.set_mac_offset(0);
            packet.clear_network();
            return ParsedHeaders { kind: Kind::Malformed, ..NOTHING };
        };
        (ethertype, offset) = (u16::from_be_bytes([*a, *b]), offset + 4);
    }
    packet.set_mac_offset(0);
    match ethertype {
        ETHERTYPE_IPV4 => parse_ipv4(packet, offset),
        ETHERTYPE_IPV6 => parse_ipv6(packet, offset),
        _ => {
            packet.clear_network();
            NOTHING
        }
    }
}

/// Looks at a packet that begins with an IP header.
#[inline]
pub fn parse_ip(packet: &mut Packet) -> ParsedHeaders {
    parse_ip_at(packet, 0)
}

/// Parses a packet that may have a marked network header, and begins with Ethernet if not.
#[inline]
pub fn parse_marked(packet: &mut Packet) -> ParsedHeaders {
    match packet.network_offset() {
        Some(offset) => parse_ip_at(packet, offset),
        None => parse_ethernet(packet),
    }
}

fn parse_ip_at(packet: &mut Packet, offset: usize) -> ParsedHeaders {
    match packet.data().get(offset).map(|byte| byte >> 4) {
        Some(4) => parse_ipv4(packet, offset),
        Some(6) => parse_ipv6(packet, offset),
        _ => {
            packet.clear_network();
            ParsedHeaders { kind: Kind::Malformed, ..NOTHING }
        }
    }
}

#[inline]
fn parse_ipv4(packet: &mut Packet, offset: usize) -> ParsedHeaders {
    let found = ipv4(packet.data().get(offset..).unwrap_or(&[]));
    mark(packet, offset, found, Family::V4)
}

/// Marks the headers found at `offset`: a packet and the length of its headers, or nothing valid.
#[inline]
fn mark(
    packet: &mut Packet,
    offset: usize,
    found: Option<(ParsedHeaders, usize)>,
    family: Family,
) -> ParsedHeaders {
    match found {
        Some((headers, header_len)) => {
            packet.set_network(offset, header_len);
            headers
        }
        None => {
            packet.clear_network();
            ParsedHeaders { kind: Kind::Malformed, family, ..NOTHING }
        }
    }
}

/// An IPv4 packet and the length of its header; `None` when that header is not right.
#[inline]
fn ipv4(bytes: &[u8]) -> Option<(ParsedHeaders, usize)> {
    let head = bytes.first_chunk::<20>()?;
    let header_len = usize::from(head[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if head[0] >> 4 != 4 || header_len < 20 || total < header_len || total > bytes.len() {
        return None;
    }
    let headers = ParsedHeaders { family: Family::V4, protocol: head[9], ..NOTHING };
    // More fragments, or an offset.
    if u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
        return Some((ParsedHeaders { kind: Kind::Fragment, ..headers }, header_len));
    }
    let payload = bytes.get(header_len..total).unwrap_or(&[]);
    Some((upper(headers, payload, || pseudo4(bytes, payload.len())), header_len))
}

fn parse_ipv6(packet: &mut Packet, offset: usize) -> ParsedHeaders {
    let found = ipv6(packet.data().get(offset..).unwrap_or(&[]));
    mark(packet, offset, found, Family::V6)
}

/// An IPv6 packet and the length of its headers up to the upper layer.
fn ipv6(bytes: &[u8]) -> Option<(ParsedHeaders, usize)> {
    let head = bytes.first_chunk::<40>()?;
    let total = 40 + usize::from(u16::from_be_bytes([head[4], head[5]]));
    if head[0] >> 4 != 6 || total > bytes.len() {
        return None;
    }
    let payload = bytes.get(40..total)?;
    let found = upper_layer(head[6], payload).ok()?;
    let header_len = total - found.bytes.len();
    let headers = ParsedHeaders { family: Family::V6, protocol: found.protocol, ..NOTHING };
    // An atomic fragment is a whole packet (RFC 6946).
    if found.fragment.is_some_and(|fragment| !fragment.is_atomic()) {
        return Some((ParsedHeaders { kind: Kind::Fragment, ..headers }, header_len));
    }
    let pseudo = || pseudo6(bytes, found.bytes.len());
    Some((upper(headers, found.bytes, pseudo), header_len))
}

/// Parses the bytes behind the IP header: `bytes` from there to the packet's end.
#[inline]
fn upper(headers: ParsedHeaders, bytes: &[u8], pseudo: impl FnOnce() -> Sum) -> ParsedHeaders {
    let word = |at: usize| match bytes.get(at..) {
        Some([a, b, ..]) => u16::from_be_bytes([*a, *b]),
        _ => 0,
    };
    let ports = [word(0), word(2)];
    let malformed = ParsedHeaders { kind: Kind::Malformed, ..headers };
    match headers.protocol {
        ip_protocol::TCP => match bytes.first_chunk::<20>() {
            Some(head) if (20..=bytes.len()).contains(&(usize::from(head[12] >> 4) * 4)) => {
                let segment = Segment::read(bytes, pseudo).unwrap_or(Segment::NONE);
                let tcp_flags = head[13] & 0x3f;
                ParsedHeaders { kind: Kind::Whole, ports, tcp_flags, segment, ..headers }
            }
            _ => malformed,
        },
        ip_protocol::UDP if (8..=bytes.len()).contains(&usize::from(word(4))) => {
            ParsedHeaders { kind: Kind::Whole, ports, ..headers }
        }
        ip_protocol::UDP => malformed,
        // Each is the other version's protocol, which no host uses: such a packet is no error about
        // a session.
        ip_protocol::ICMP if headers.family == Family::V4 => {
            icmp(headers, bytes, is_query4, |icmp_type| matches!(icmp_type, 3 | 4 | 5 | 11 | 12))
        }
        ip_protocol::ICMPV6 if headers.family == Family::V6 => icmp(
            headers,
            bytes,
            |icmp_type| matches!(icmp_type, 128 | 129),
            |icmp_type| matches!(icmp_type, 1..=4),
        ),
        protocol if ip_protocol::has_ports(protocol) && bytes.len() >= 8 => {
            ParsedHeaders { kind: Kind::Whole, ports, ..headers }
        }
        protocol if ip_protocol::has_ports(protocol) => malformed,
        _ => ParsedHeaders { kind: Kind::Unknown, ..headers },
    }
}

/// Echo, timestamp, information, address mask, with their replies (RFC 792, RFC 950).
fn is_query4(icmp_type: u8) -> bool {
    matches!(icmp_type, 0 | 8 | 13..=18)
}

fn icmp(
    headers: ParsedHeaders,
    bytes: &[u8],
    is_query: impl Fn(u8) -> bool,
    is_error: impl Fn(u8) -> bool,
) -> ParsedHeaders {
    let Some(head) = bytes.first_chunk::<8>() else {
        return ParsedHeaders { kind: Kind::Malformed, ..headers };
    };
    let ident = u16::from_be_bytes([head[4], head[5]]);
    match head[0] {
        query if is_query(query) => {
            ParsedHeaders { kind: Kind::Whole, ports: [ident; 2], ..headers }
        }
        error if is_error(error) => ParsedHeaders { kind: Kind::Error, ..headers },
        _ => ParsedHeaders { kind: Kind::Unknown, ..headers },
    }
}

/// The packet that an ICMP error quotes, as far as it is carried: its view in the reverse direction
/// (source and destination exchanged), and its addresses' bytes from `network` on.
pub struct Quoted<'a> {
    /// Its look, ports exchanged.
    pub headers: ParsedHeaders,
    /// Its IP header and the beginning of its payload.
    pub network: &'a [u8],
}

/// The packet that the error in `transport` (from the ICMP header on) quotes; `None` if too little
/// is quoted to find a session.
pub fn quoted<'a>(headers: &ParsedHeaders, transport: &'a [u8]) -> Option<Quoted<'a>> {
    let network = transport.get(8..)?;
    let (protocol, header_len) = match headers.family {
        Family::V4 => {
            let head = network.first_chunk::<20>()?;
            let offset = u16::from_be_bytes([head[6], head[7]]) & 0x1fff;
            let whole = head[0] >> 4 == 4 && head[0] & 0x0f >= 5 && offset == 0;
            whole.then(|| (head[9], usize::from(head[0] & 0x0f) * 4))?
        }
        Family::V6 => {
            let head = network.first_chunk::<40>()?;
            let found = upper_layer(head[6], network.get(40..)?).ok()?;
            let later = found.fragment.is_some_and(|fragment| !fragment.is_first());
            let whole = head[0] >> 4 == 6 && !later;
            whole.then(|| (found.protocol, network.len() - found.bytes.len()))?
        }
        Family::Other => return None,
    };
    let upper = network.get(header_len..)?.first_chunk::<8>()?;
    let word = |at: usize| u16::from_be_bytes([upper[at], upper[at + 1]]);
    let query = match protocol {
        ip_protocol::ICMP => headers.family == Family::V4 && is_query4(upper[0]),
        ip_protocol::ICMPV6 => headers.family == Family::V6 && matches!(upper[0], 128 | 129),
        _ => false,
    };
    let ports = match protocol {
        _ if query => [word(4); 2],
        _ if ip_protocol::has_ports(protocol) => [word(2), word(0)],
        _ => return None,
    };
    let headers =
        ParsedHeaders { kind: Kind::Whole, family: headers.family, protocol, ports, ..NOTHING };
    Some(Quoted { headers, network })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An Ethernet frame around an IPv4 packet with these flags and offset, protocol and payload.
    fn frame(tags: &[u8], flags_offset: u16, protocol: u8, payload: &[u8]) -> Packet {
        let mut bytes = vec![2; 12];
        bytes.extend_from_slice(tags);
        bytes.extend_from_slice(&[8, 0, 0x45, 0]);
        bytes.extend_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[0, 1]);
        bytes.extend_from_slice(&flags_offset.to_be_bytes());
        bytes.extend_from_slice(&[64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend_from_slice(payload);
        Packet::new(&bytes).unwrap()
    }

    const UDP: [u8; 8] = [0, 53, 1, 0, 0, 8, 0, 0];

    #[test]
    fn whole_packets_show_their_ports() {
        let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]];
        for tags in tags {
            let mut packet = frame(tags, 0x4000, 17, &UDP);
            let headers = parse_ethernet(&mut packet);
            assert_eq!(
                (headers.kind, headers.ports, headers.protocol),
                (Kind::Whole, [53, 256], 17)
            );
            assert_eq!(packet.network_offset(), Some(14 + tags.len()));
            assert_eq!(packet.transport(), UDP);
            assert_eq!(parse_marked(&mut packet), headers);
        }
        let mut tcp = [0; 20];
        (tcp[3], tcp[12], tcp[13]) = (80, 0x50, 0x12);
        let headers = parse_ethernet(&mut frame(&[], 0, 6, &tcp));
        assert_eq!((headers.kind, headers.ports, headers.tcp_flags), (Kind::Whole, [0, 80], 0x12));
        let headers = parse_ethernet(&mut frame(&[], 0, 1, &[8, 0, 0, 0, 0x12, 0x34, 0, 1]));
        assert_eq!((headers.kind, headers.ports), (Kind::Whole, [0x1234; 2]));
    }

    proptest! {
        /// The fast path agrees with the slow one, or decides nothing; and the usual frames take
        /// it.
        #[test]
        fn the_usual_frame_is_looked_at_as_any(
            payload in prop::collection::vec(any::<u8>(), 0..60),
            protocol in prop_oneof![Just(6u8), Just(17), any::<u8>()],
            flags_offset in prop_oneof![4 => Just(0x4000u16), 1 => any::<u16>()],
            data_offset in 0u8..16,
            changed in prop_oneof![3 => Just(None), 1 => (12usize..34, any::<u8>()).prop_map(Some)],
        ) {
            let mut payload = payload;
            let len = payload.len() as u16;
            if protocol == 17 && len >= 8 {
                payload[4..6].copy_from_slice(&len.to_be_bytes());
            } else if len > 12 {
                payload[12] = data_offset << 4;
            }
            let mut packet = frame(&[], flags_offset, protocol, &payload);
            if let Some((at, byte)) = changed {
                packet.data_mut()[at] = byte;
            }
            let usual = parse_common(packet.data());
            let any = parse_ethernet(&mut packet);
            if let Some(usual) = usual {
                prop_assert_eq!(usual, any);
                prop_assert_eq!(packet.network_offset(), Some(USUAL_NETWORK));
                prop_assert_eq!(packet.transport_offset(), Some(USUAL_TRANSPORT));
            } else if changed.is_none() && payload.len() >= 20 && matches!(protocol, 6 | 17) {
                prop_assert!(flags_offset & 0x3fff != 0 || any.kind == Kind::Malformed);
            }
        }
    }

    #[test]
    fn other_packets_are_distinguished() {
        let kind = |flags_offset, protocol, payload: &[u8]| {
            parse_ethernet(&mut frame(&[], flags_offset, protocol, payload)).kind
        };
        assert_eq!(kind(0x2000, 17, &UDP), Kind::Fragment);
        assert_eq!(kind(0x0007, 17, &UDP), Kind::Fragment);
        assert_eq!(kind(0, 17, &UDP[..7]), Kind::Malformed);
        assert_eq!(kind(0, 17, &[0, 53, 1, 0, 0, 9, 0, 0]), Kind::Malformed);
        assert_eq!(kind(0, 6, &UDP), Kind::Malformed);
        assert_eq!(kind(0, 47, &UDP), Kind::Unknown);
        assert_eq!(kind(0, 1, &[3, 1, 0, 0, 0, 0, 0, 0]), Kind::Error);
        assert_eq!(kind(0, 1, &[9, 0, 0, 0, 0, 0, 0, 0]), Kind::Unknown);
        assert_eq!(kind(0, 58, &[1, 1, 0, 0, 0, 0, 0, 0]), Kind::Unknown, "ICMPv6 in IPv4");
        let mut arp = Packet::new(&[[2; 12].as_slice(), &[8, 6], &[0; 28]].concat()).unwrap();
        assert_eq!(parse_ethernet(&mut arp).kind, Kind::NotIp);
        assert_eq!(parse_ethernet(&mut Packet::new(&[0; 13]).unwrap()).kind, Kind::Malformed);
        let mut cut = Packet::new(&[[2; 12].as_slice(), &[0x81, 0]].concat()).unwrap();
        assert_eq!(parse_ethernet(&mut cut).kind, Kind::Malformed);
        assert_eq!(cut.mac(), cut.data(), "its addresses can be looked at");
        let mut lie = frame(&[], 0, 17, &UDP);
        lie.data_mut()[17] = 200;
        assert_eq!(parse_ethernet(&mut lie).kind, Kind::Malformed);
        assert!(lie.network().is_empty());
    }

    #[test]
    fn an_error_quotes_the_reply() {
        let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
        error.extend_from_slice(&frame(&[], 0, 17, &UDP).data()[14..]);
        let mut packet = frame(&[], 0, 1, &error);
        let headers = parse_ethernet(&mut packet);
        let quoted = quoted(&headers, packet.transport()).unwrap();
        assert_eq!((quoted.headers.ports, quoted.headers.protocol), ([256, 53], 17));
        assert_eq!(quoted.network[12..16], [10, 0, 0, 1]);
        for len in 0..error.len() {
            let mut cut = frame(&[], 0, 1, &error[..len]);
            let headers = parse_ethernet(&mut cut);
            assert!(super::quoted(&headers, cut.transport()).is_none(), "{len}");
        }
    }
}
