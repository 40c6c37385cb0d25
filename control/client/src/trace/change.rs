//! What an element changed in a packet, in words.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::record::Shot;

/// A field of a header: its name, where it is, how many bytes, and how it is written.
struct Field {
    name: &'static str,
    at: usize,
    len: usize,
    show: fn(&[u8]) -> String,
}

const fn field(name: &'static str, at: usize, len: usize, show: fn(&[u8]) -> String) -> Field {
    Field { name, at, len, show }
}

/// RFC 791 section 3.1.
const IPV4: &[Field] = &[
    field("tos", 1, 1, number),
    field("ip length", 2, 2, number),
    field("ip id", 4, 2, number),
    field("fragment", 6, 2, hexadecimal),
    field("ttl", 8, 1, number),
    field("protocol", 9, 1, number),
    field("ip checksum", 10, 2, hexadecimal),
    field("src", 12, 4, address),
    field("dst", 16, 4, address),
];
/// RFC 8200 section 3.
const IPV6: &[Field] = &[
    field("class and flow", 0, 4, hexadecimal),
    field("ip length", 4, 2, number),
    field("next header", 6, 1, number),
    field("hop limit", 7, 1, number),
    field("src", 8, 16, address),
    field("dst", 24, 16, address),
];
/// RFC 9293 section 3.1.
const TCP: &[Field] = &[
    field("src port", 0, 2, number),
    field("dst port", 2, 2, number),
    field("seq", 4, 4, number),
    field("ack", 8, 4, number),
    field("flags", 12, 2, hexadecimal),
    field("window", 14, 2, number),
    field("tcp checksum", 16, 2, hexadecimal),
];
/// RFC 768.
const UDP: &[Field] = &[
    field("src port", 0, 2, number),
    field("dst port", 2, 2, number),
    field("udp length", 4, 2, number),
    field("udp checksum", 6, 2, hexadecimal),
];
/// RFC 792.
const ICMP: &[Field] = &[
    field("icmp type", 0, 1, number),
    field("icmp code", 1, 1, number),
    field("icmp checksum", 2, 2, hexadecimal),
    field("icmp id", 4, 2, number),
];
const ETHERNET: &[Field] = &[
    field("ether dst", 0, 6, address),
    field("ether src", 6, 6, address),
    field("ethertype", 12, 2, hexadecimal),
];
/// Annotations that have a name.
const ANNOTATIONS: &[Field] = &[
    field("destination annotation", 0, 4, address),
    field("paint", 16, 1, number),
    field("icmp parameter annotation", 17, 1, number),
    field("fix-src annotation", 18, 1, number),
    field("vlan annotation", 22, 2, little),
    field("aggregate annotation", 24, 4, little),
];
/// Protocol numbers (IANA).
const PROTOCOLS: &[(u8, &str)] = &[
    (1, "ICMP"),
    (4, "IPv4 in IP"),
    (6, "TCP"),
    (17, "UDP"),
    (41, "IPv6 in IP"),
    (47, "GRE"),
    (58, "ICMPv6"),
];
/// Longest header whose fields are reported, and what is left of its options.
const HEADER_MAX: usize = 60;

fn number(bytes: &[u8]) -> String {
    bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)).to_string()
}

/// A number of this host's order of bytes.
fn little(bytes: &[u8]) -> String {
    bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)).to_string()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

fn address(bytes: &[u8]) -> String {
    match *bytes {
        [a, b, c, d] => Ipv4Addr::new(a, b, c, d).to_string(),
        _ => match <[u8; 16]>::try_from(bytes) {
            Ok(address) => Ipv6Addr::from(address).to_string(),
            Err(_) => {
                let words: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                words.join(":")
            }
        },
    }
}

/// A packet in a few words: `60 bytes, TCP 10.0.0.1:4000 > 10.0.0.2:80`.
pub fn describe(shot: &Shot) -> String {
    let layers = shot.layers();
    let ip = layers.network.and_then(|at| shot.bytes.get(at..));
    let what = match ip.and_then(headers) {
        Some(Headers { ends: [src, dst], protocol, .. }) => {
            let ports = layers.transport.filter(|_| matches!(protocol, 6 | 17));
            let ports = ports.and_then(|at| shot.bytes.get(at..at + 4));
            let port = |at: usize| ports.map(|ports| number(&ports[at..at + 2]));
            let end = |address: &str, port: Option<String>| match port {
                Some(port) if address.contains(':') => format!("[{address}]:{port}"),
                Some(port) => format!("{address}:{port}"),
                None => address.to_owned(),
            };
            format!("{} {} > {}", protocol_name(protocol), end(&src, port(0)), end(&dst, port(2)))
        }
        None if layers.is_frame => {
            let ethertype = shot.bytes.get(12..14).map_or(String::new(), hexadecimal);
            match &ethertype[..] {
                "0x0806" => arp(&shot.bytes[14..]),
                _ => format!("ethertype {ethertype}"),
            }
        }
        None => "no header that is known".to_owned(),
    };
    format!("{} bytes, {what}", shot.len)
}

/// RFC 826, of IPv4.
fn arp(body: &[u8]) -> String {
    match body {
        [0, 1, 8, 0, 6, 4, 0, operation, rest @ ..] if rest.len() >= 20 => {
            let operation = if *operation == 1 { "request" } else { "reply" };
            format!("ARP {operation}, {} for {}", address(&rest[6..10]), address(&rest[16..20]))
        }
        _ => "ARP".to_owned(),
    }
}

fn protocol_name(protocol: u8) -> String {
    let known = PROTOCOLS.iter().find(|(number, _)| *number == protocol);
    known.map_or(format!("protocol {protocol}"), |(_, name)| (*name).to_owned())
}

/// What fields an IP packet has.
struct Headers {
    fields: &'static [Field],
    ends: [String; 2],
    protocol: u8,
}

fn headers(ip: &[u8]) -> Option<Headers> {
    let (fields, ends, protocol) = match ip.first()? >> 4 {
        4 => (IPV4, [ip.get(12..16)?, ip.get(16..20)?], *ip.get(9)?),
        6 => (IPV6, [ip.get(8..24)?, ip.get(24..40)?], *ip.get(6)?),
        _ => return None,
    };
    Some(Headers { fields, ends: ends.map(address), protocol })
}

/// What is different, a phrase each.
pub fn changes(before: &Shot, after: &Shot) -> Vec<String> {
    let mut told = length(before, after);
    told.extend(contents(before, after));
    told.extend(beside(before, after));
    told
}

fn length(before: &Shot, after: &Shot) -> Vec<String> {
    let mut told = Vec::new();
    // In another frame nobody knows at which end it grew.
    let front = if before.frame == after.frame { after.start - before.start } else { 0 };
    let bytes = |n: i64| if n == 1 { "1 byte".to_owned() } else { format!("{n} bytes") };
    let tail = after.len as i64 - before.len as i64 + front;
    match front {
        0 => {}
        1.. => told.push(format!("{} taken off the front", bytes(front))),
        _ => told.push(format!("{} put in front", bytes(-front))),
    }
    match tail {
        0 => {}
        1.. => told.push(format!("{} added", bytes(tail))),
        _ => told.push(format!("{} cut off", bytes(-tail))),
    }
    if !told.is_empty() {
        told.insert(0, format!("length {} -> {}", before.len, after.len));
    }
    told
}

/// Where both have a header at these places, what fields differ; bytes that were told are marked in
/// `seen`, by their place in `after`.
fn compare(
    fields: &[Field],
    (old, new): (&[u8], &[u8]),
    at: usize,
    seen: &mut [bool],
) -> Vec<String> {
    let mut told = Vec::new();
    for field in fields {
        let part = |bytes: &[u8]| bytes.get(field.at..field.at + field.len).map(field.show);
        seen.iter_mut().skip(at + field.at).take(field.len).for_each(|seen| *seen = true);
        if let (Some(old), Some(new)) = (part(old), part(new))
            && old != new
        {
            let name = field.name;
            told.push(match name.ends_with("checksum") {
                true => name.to_owned(),
                false => format!("{name} {old} -> {new}"),
            });
        }
    }
    told
}

fn contents(before: &Shot, after: &Shot) -> Vec<String> {
    let (old, new) = (before.layers(), after.layers());
    let mut told = Vec::new();
    let mut seen = vec![false; after.bytes.len()];
    match (old.is_frame, new.is_frame) {
        (true, true) => {
            told.extend(compare(ETHERNET, (&before.bytes, &after.bytes), 0, &mut seen));
        }
        (false, true) => {
            let [dst, src] = [0, 6].map(|at| address(&after.bytes[at..at + 6]));
            told.push(format!("now Ethernet {src} > {dst}"));
        }
        _ => {}
    }
    let same_frame = before.frame == after.frame;
    let shift = if same_frame { after.start - before.start } else { 0 };
    let moved = |at: usize| at as i64 - shift;
    if let (Some(from), Some(to)) = (old.network, new.network) {
        let (ip, now) = (&before.bytes[from..], &after.bytes[to..]);
        let same_version = ip.first().map(|b| b >> 4) == now.first().map(|b| b >> 4);
        if same_version && (!same_frame || moved(from) == to as i64) {
            if let Some(headers) = headers(now) {
                told.extend(compare(headers.fields, (ip, now), to, &mut seen));
                told.extend(transport(
                    (before, old.transport),
                    (after, new.transport),
                    &headers,
                    &mut seen,
                ));
            }
        } else {
            told.push(format!("now {}", describe(after)));
            return told;
        }
    }
    told.extend(others(before, after, if same_frame { shift } else { 0 }, &seen));
    told
}

fn transport(
    (before, from): (&Shot, Option<usize>),
    (after, to): (&Shot, Option<usize>),
    headers: &Headers,
    seen: &mut [bool],
) -> Vec<String> {
    let (Some(from), Some(to)) = (from, to) else { return Vec::new() };
    let fields = match headers.protocol {
        1 | 58 => ICMP,
        6 => TCP,
        17 => UDP,
        _ => return Vec::new(),
    };
    let part = |shot: &Shot, at: usize| -> Vec<u8> {
        shot.bytes.iter().skip(at).take(HEADER_MAX).copied().collect()
    };
    compare(fields, (&part(before, from), &part(after, to)), to, seen)
}

/// Bytes that differ and are in no field that was looked at.
fn others(before: &Shot, after: &Shot, shift: i64, seen: &[bool]) -> Option<String> {
    let differing = (0..after.bytes.len()).filter(|at| {
        let was = usize::try_from(*at as i64 + shift).ok().and_then(|at| before.bytes.get(at));
        !seen[*at] && was.is_some_and(|was| *was != after.bytes[*at])
    });
    let places: Vec<usize> = differing.collect();
    let (first, last) = (*places.first()?, *places.last()?);
    Some(match places.len() {
        1 => format!("byte {first} 0x{:02x}", after.bytes[first]),
        count => format!("{count} bytes between {first} and {last}"),
    })
}

/// What is known of the packet besides its bytes.
fn beside(before: &Shot, after: &Shot) -> Vec<String> {
    let mut seen = vec![false; after.annotations.len()];
    let old = (&before.annotations[..], &after.annotations[..]);
    let mut told = compare(ANNOTATIONS, old, 0, &mut seen);
    let differ = |at: &usize| !seen[*at] && before.annotations[*at] != after.annotations[*at];
    if (0..seen.len()).any(|at| differ(&at)) {
        told.push("other annotations".to_owned());
    }
    match (before.network, after.network) {
        (None, Some(_)) => told.push("IP header marked".to_owned()),
        (Some(_), None) => told.push("IP header no longer marked".to_owned()),
        _ => {}
    }
    match (before.fcb, after.fcb) {
        (0, 1..) => told.push("session or class found".to_owned()),
        (1.., 0) => told.push("session and class forgotten".to_owned()),
        (old, new) if old != new => told.push("another session or class".to_owned()),
        _ => {}
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UDP from 10.0.0.1:40000 to 10.0.0.2:53, behind an Ethernet header.
    fn shot() -> Shot {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0x12, 0x34]);
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0, 53, 0, 10, 0, 0, 7, 8]);
        Shot {
            len: bytes.len(),
            start: 128,
            frame: 1,
            network: None,
            fcb: 0,
            annotations: [0; 28],
            bytes,
        }
    }

    fn of(change: impl FnOnce(&mut Shot)) -> String {
        let mut after = shot();
        change(&mut after);
        changes(&shot(), &after).join(", ")
    }

    #[test]
    fn a_packet_is_described() {
        let words = "44 bytes, UDP 10.0.0.1:40000 > 10.0.0.2:53";
        assert_eq!(describe(&shot()), words);
        let mut odd = shot();
        odd.bytes[12..14].copy_from_slice(&[8, 6]);
        odd.bytes.truncate(20);
        assert_eq!(describe(&odd), "44 bytes, ARP");
        odd.bytes.truncate(3);
        assert_eq!(describe(&odd), "44 bytes, no header that is known");
    }

    #[test]
    fn changes_are_told_by_field() {
        assert_eq!(of(|_| ()), "");
        let ttl = |shot: &mut Shot| {
            shot.bytes[22] = 63;
            shot.bytes[24] = 0x13;
        };
        assert_eq!(of(ttl), "ttl 64 -> 63, ip checksum");
        let nat = |shot: &mut Shot| {
            shot.bytes[26..30].copy_from_slice(&[203, 0, 113, 9]);
            shot.bytes[34..36].copy_from_slice(&[4, 0]);
        };
        assert_eq!(of(nat), "src 10.0.0.1 -> 203.0.113.9, src port 40000 -> 1024");
        let payload = |shot: &mut Shot| shot.bytes[42..].fill(0);
        assert_eq!(of(payload), "2 bytes between 42 and 43");
        let ether = |shot: &mut Shot| shot.bytes[..6].fill(0xaa);
        assert_eq!(of(ether), "ether dst 02:02:02:02:02:02 -> aa:aa:aa:aa:aa:aa");
        let beside = |shot: &mut Shot| {
            shot.annotations[..4].copy_from_slice(&[10, 0, 0, 9]);
            shot.annotations[16] = 3;
            shot.network = Some(14);
            shot.fcb = 7;
        };
        let words = "destination annotation 0.0.0.0 -> 10.0.0.9, paint 0 -> 3, IP header marked, \
                     session or class found";
        assert_eq!(of(beside), words);
    }

    #[test]
    fn lengths_and_new_headers_are_told() {
        let strip = |shot: &mut Shot| {
            shot.bytes.drain(..14);
            (shot.start, shot.len) = (142, 30);
        };
        assert_eq!(of(strip), "length 44 -> 30, 14 bytes taken off the front");
        let tunnel = |shot: &mut Shot| {
            let inner = shot.bytes.split_off(14);
            shot.bytes = vec![0x45, 0, 0, 50, 0, 0, 0, 0, 64, 4, 0, 0];
            shot.bytes.extend([203, 0, 113, 1, 203, 0, 113, 2]);
            shot.bytes.extend(inner);
            (shot.start, shot.len) = (122, 50);
        };
        let words = "length 44 -> 50, 6 bytes put in front, now 50 bytes, IPv4 in IP 203.0.113.1 > \
                     203.0.113.2";
        assert_eq!(of(tunnel), words);
        let cut = |shot: &mut Shot| {
            shot.len = 40;
            shot.bytes.truncate(40);
        };
        assert_eq!(of(cut), "length 44 -> 40, 4 bytes cut off");
    }

    #[test]
    fn whatever_the_bytes_it_does_not_panic() {
        let mut state = 7u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for len in 0..120usize {
            let mut random = |len: usize| Shot {
                len,
                start: i64::from(byte()),
                frame: u64::from(byte() & 1),
                network: (byte() & 1 == 0).then(|| i64::from(byte()) - 100),
                fcb: 0,
                annotations: [byte(); 28],
                bytes: (0..len).map(|at| if at % 14 == 0 { 0x45 } else { byte() & 0x0f }).collect(),
            };
            let (before, after) = (random(len), random(len * 7 % 120));
            let _ = (changes(&before, &after), describe(&after));
        }
    }
}
