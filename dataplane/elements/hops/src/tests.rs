//! The elements against packets that are written down byte by byte.

use proptest::prelude::*;
use thruway_element::Entry;
use thruway_elements_rig::Rig;
use thruway_packet::{Anno, Packet};

/// A UDP datagram in an IPv4 or IPv6 packet, of the flow inside.
fn inside(is_v6: bool, port: u16, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len();
    let udp = [&port.to_be_bytes()[..], &[0, 53, 0, len as u8, 0, 0], payload].concat();
    let ip = match is_v6 {
        true => [&[0x60, 0, 0, 0, 0, len as u8, 17, 64][..], &[1; 16], &[2; 16]].concat(),
        false => {
            let head = [0x45, 0, 0, 20 + len as u8, 0, 0, 0, 0, 64, 17, 0, 0];
            [&head[..], &[1; 4], &[2; 4]].concat()
        }
    };
    [ip, udp].concat()
}

/// The sum of RFC 1071, word by word.
fn plain_sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The headers outside, without the UDP checksum, of a payload of this length.
fn outside(is_v6: bool, ports: (u16, u16), payload_len: usize) -> Vec<u8> {
    let len = 8 + payload_len;
    let [s, t] = ports.0.to_be_bytes();
    let [d, e] = ports.1.to_be_bytes();
    let [l, m] = (len as u16).to_be_bytes();
    let udp = [s, t, d, e, l, m, 0, 0];
    if is_v6 {
        let address = |last: u8| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[last]].concat();
        let head = [0x60, 0, 0, 0, l, m, 17, 64];
        return [&head[..], &address(1), &address(2), &udp].concat();
    }
    let [h, i] = (20 + len as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, h, i, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let sum = plain_sum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&ip[..], &udp].concat()
}

/// What a hop carries, as a number of NSH, and a packet of that.
fn carried(protocol: &str, is_v6: bool, port: u16, payload: &[u8]) -> (u8, Vec<u8>) {
    let packet = inside(is_v6, port, payload);
    let number = if is_v6 { 2 } else { 1 };
    match protocol {
        "ip" => (number, packet),
        "ethernet" => {
            let ethertype: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
            (3, [&[2; 12][..], &ethertype, &packet].concat())
        }
        _ => (4, [&[0x0f, 0xc2, 2, number, 0, 0, 5, 255], &packet[..]].concat()),
    }
}

#[derive(Debug, Clone)]
struct Case {
    is_v6: bool,
    is_geneve: bool,
    protocol: &'static str,
    inside_v6: bool,
    vni: u32,
    port: u16,
    tag: Option<u16>,
    payload: Vec<u8>,
}

fn case() -> impl Strategy<Value = Case> {
    let protocol = prop::sample::select(vec!["ip", "ethernet", "nsh"]);
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    let tag = prop::option::of(any::<u16>());
    let rest = (0u32..1 << 24, any::<u16>(), tag, payload);
    (any::<[bool; 3]>(), protocol, rest).prop_map(|(flags, protocol, rest)| {
        let [is_v6, is_geneve, inside_v6] = flags;
        let (vni, port, tag, payload) = rest;
        let tag = tag.filter(|_| is_geneve);
        Case { is_v6, is_geneve, protocol, inside_v6, vni, port, tag, payload }
    })
}

impl Case {
    fn network(&self) -> String {
        let network = if self.is_geneve { "geneve" } else { "vxlan-gpe" };
        format!("NETWORK {network}")
    }

    /// VXLAN-GPE or Geneve, by hand.
    fn overlay(&self, number: u8) -> Vec<u8> {
        let [_, v, n, i] = self.vni.to_be_bytes();
        if !self.is_geneve {
            return vec![0x0c, 0, 0, number, v, n, i, 0];
        }
        let [a, b] = match number {
            1 => [0x08, 0x00],
            2 => [0x86, 0xdd],
            3 => [0x65, 0x58],
            _ => [0x89, 0x4f],
        };
        let mut bytes = vec![if self.tag.is_some() { 2 } else { 0 }, 0, a, b, v, n, i, 0];
        if let Some(tag) = self.tag {
            bytes.extend([0xff, 0, 1, 1]);
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes
    }

    fn encap(&self) -> Rig {
        let (src, dst) = match self.is_v6 {
            true => ("2001:db8::1", "2001:db8::2"),
            false => ("192.0.2.1", "192.0.2.2"),
        };
        let (vni, protocol) = (format!("VNI {}", self.vni), format!("PROTOCOL {}", self.protocol));
        let tag = format!("TAG {}", self.tag.is_some());
        let texts = [src, dst, &self.network(), &vni, &protocol, &tag, "CHECKSUM true"];
        Rig::new(&crate::hop_encap::ENTRY, &texts, 2).unwrap()
    }

    fn decap(&self) -> Rig {
        let protocol = format!("PROTOCOL {}", self.protocol);
        let texts = [self.network(), format!("VNI {}", self.vni), protocol];
        Rig::new(&crate::hop_decap::ENTRY, &texts, 2).unwrap()
    }
}

proptest! {
    /// Encapsulated packets are what the drafts and RFCs draw, and come out as they went in.
    #[test]
    fn encapsulated_as_drawn(case in case()) {
        let (number, bytes) = carried(case.protocol, case.inside_v6, case.port, &case.payload);
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_anno_number(Anno::VLAN_TCI, case.tag.unwrap_or(0).into());
        let mut out = case.encap().push([packet]);
        let mut packet = out[0].pop().expect("it passes");
        let data = packet.data().to_vec();

        let ip_len = if case.is_v6 { 40 } else { 20 };
        let src_port = u16::from_be_bytes([data[ip_len], data[ip_len + 1]]);
        prop_assert!(src_port >= 49152);
        let overlay = case.overlay(number);
        let dst_port = if case.is_geneve { 6081 } else { 4790 };
        let mut wanted = outside(case.is_v6, (src_port, dst_port), overlay.len() + bytes.len());
        wanted.extend(&overlay);
        wanted.extend(&bytes);
        let checksum = [data[ip_len + 6], data[ip_len + 7]];
        wanted[ip_len + 6..ip_len + 8].copy_from_slice(&checksum);
        prop_assert_eq!(&data, &wanted);
        // The checksum over the pseudo header (RFC 768, RFC 8200 section 8.1), by hand.
        let udp_len = (data.len() - ip_len) as u16;
        let addresses = if case.is_v6 { &data[8..40] } else { &data[12..20] };
        let pseudo = [addresses, &[0, 17][..], &udp_len.to_be_bytes(), &data[ip_len..]].concat();
        prop_assert_eq!(plain_sum(&pseudo), 0);

        // Padding of the link behind it is none of it.
        prop_assert!(packet.put(3));
        let out = case.decap().push([packet]);
        prop_assert_eq!(out[0][0].data(), &bytes[..]);
        prop_assert_eq!(out[0][0].anno_number(Anno::AGGREGATE), case.vni);
        prop_assert_eq!(out[0][0].anno_number(Anno::VLAN_TCI), u32::from(case.tag.unwrap_or(0)));
        // Another network, or another protocol, is refused.
        let other = Case { vni: case.vni ^ 1, ..case.clone() };
        let is_refused = other.decap().push([Packet::new(&data).unwrap()])[1].len() == 1;
        prop_assert!(is_refused);
    }

    /// A byte that is another one is found out, or is none that anybody looks at.
    #[test]
    fn a_changed_byte_is_noticed(case in case(), at: prop::sample::Index, bit in 0u8..8) {
        let (_, bytes) = carried(case.protocol, case.inside_v6, case.port, &case.payload);
        let out = case.encap().push([Packet::new(&bytes).unwrap()]);
        let mut data = out[0][0].data().to_vec();
        let at = at.index(data.len());
        data[at] ^= 1 << bit;
        let ip_len = if case.is_v6 { 40 } else { 20 };
        // IPv6: traffic class and flow label, hop limit. A UDP checksum of 0 is none.
        let is_free = case.is_v6 && (at < 4 && data[0] >> 4 == 6 || at == 7);
        let is_zero = data[ip_len + 6..ip_len + 8] == [0, 0];
        let out = case.decap().push([Packet::new(&data).unwrap()]);
        prop_assert!(out[0].is_empty() || is_free || is_zero, "{at}");
    }

    /// Through all four elements a packet stays what it is, and its annotations go along.
    #[test]
    fn both_ends_of_a_chain(
        payload in prop::collection::vec(any::<u8>(), 0..60), is_v6: bool, notes: (u16, u32, u8),
        form in prop::sample::select(vec!["fixed", "variable"]),
    ) {
        let bytes = inside(is_v6, 7, &payload);
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_anno_number(Anno::VLAN_TCI, notes.0.into());
        packet.set_anno_number(Anno::AGGREGATE, notes.1);
        packet.set_anno_number(Anno::PAINT, notes.2.into());
        let metadata = format!("METADATA {form}");
        let elements: [(&'static Entry, &[&str]); 5] = [
            (&crate::nsh_encap::ENTRY, &["5", "255", &metadata]),
            (&crate::hop_encap::ENTRY, &["192.0.2.1", "192.0.2.2"]),
            (&crate::hop_decap::ENTRY, &[]),
            (&crate::nsh_forward::ENTRY, &["5/254", "STEP 1"]),
            (&crate::nsh_decap::ENTRY, &["5", "254"]),
        ];
        for (entry, texts) in elements {
            let mut out = Rig::new(entry, texts, 1).unwrap().push([packet]);
            packet = out[0].pop().expect(entry.spec.name);
        }
        prop_assert_eq!(packet.data(), &bytes[..]);
        prop_assert_eq!(packet.anno_number(Anno::VLAN_TCI), u32::from(notes.0));
        prop_assert_eq!(packet.anno_number(Anno::AGGREGATE), notes.1);
        prop_assert_eq!(packet.paint(), notes.2);
    }
}

#[test]
fn the_packet_path_allocates_nothing() {
    let bytes = inside(false, 7, b"abc");
    let entries: [(&'static Entry, &[&str]); 2] = [
        (&crate::nsh_encap::ENTRY, &["5", "255"]),
        (&crate::hop_encap::ENTRY, &["192.0.2.1", "192.0.2.2", "PROTOCOL ip"]),
    ];
    for (entry, texts) in entries {
        assert_eq!(Rig::new(entry, texts, 1).unwrap().allocations(0, &bytes), 0);
    }
    let hop = [&[0x0c, 0, 0, 1, 0, 0, 1, 0], &bytes[..]].concat();
    let outer = [&outside(false, (49152, 4790), hop.len())[..], &hop].concat();
    let mut rig = Rig::new(&crate::hop_decap::ENTRY, &["PROTOCOL ip"], 1).unwrap();
    assert_eq!(rig.allocations(0, &outer), 0);
    assert_eq!(rig.drops().iter().sum::<u64>(), 0);
    let service = [&[0x0f, 0xc2, 2, 1, 0, 0, 5, 255], &bytes[..]].concat();
    let mut rig = Rig::new(&crate::nsh_decap::ENTRY, &["5"], 1).unwrap();
    assert_eq!(rig.allocations(0, &service), 0);
    assert_eq!(rig.drops().iter().sum::<u64>(), 0);
}
