//! Random and mutated bytes to every parser: fuzzing that needs no fuzzer and no luck, as the seed
//! is fixed.

mod every_parser;

use std::net::{Ipv4Addr, Ipv6Addr};
use thruway_wire::arp::ArpPacket;
use thruway_wire::dhcp::{BOOTREQUEST, DhcpHeader, DhcpWriter};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::gre::GreFields;
use thruway_wire::icmp::{IcmpHeader, icmp_type};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext::FragmentHeader;
use thruway_wire::mpls::MplsLabel;
use thruway_wire::ndp::NeighborMessage;
use thruway_wire::tcp::{TcpHeader, flags};
use thruway_wire::udp::UdpHeader;
use thruway_wire::vlan::VlanTag;
use thruway_wire::vxlan::{self, VxlanHeader};
use thruway_wire::{Header, MacAddr, ip_protocol};

/// Inputs of each sort.
const RANDOM: usize = 50_000;
const MUTATED: usize = 150_000;

/// Random numbers, and what is made of them.
struct Random(thruway_random::Random);

impl Random {
    fn from_seed(seed: u64) -> Random {
        Random(thruway_random::Random::from_seed(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.index(bound)
    }

    /// A byte that likes the corners.
    fn byte(&mut self) -> u8 {
        const CORNERS: [u8; 12] = [0, 1, 4, 6, 8, 17, 0x3a, 0x45, 0x60, 0x7f, 0x80, 0xff];
        let byte = self.next();
        if byte & 0x300 == 0 { CORNERS[self.below(CORNERS.len())] } else { byte as u8 }
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            match (self.below(8), bytes.len()) {
                (0, len) => bytes.truncate(self.below(len + 1)),
                (1, _) => bytes.push(self.byte()),
                (2, 1..) => {
                    let at = self.below(bytes.len());
                    bytes.remove(at);
                }
                (_, len @ 1..) => {
                    let byte = self.byte();
                    bytes[self.below(len)] = byte;
                }
                (_, 0) => {}
            }
        }
    }
}

fn bytes_of(header: &impl Header) -> Vec<u8> {
    header.as_bytes().to_vec()
}

fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
    let header = EthernetHeader::new(MacAddr::BROADCAST, MacAddr([2, 0, 0, 0, 0, 1]), kind);
    [&bytes_of(&header), payload].concat()
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let header = Ipv4Header::new(protocol, src, dst, payload.len()).expect("short");
    [&bytes_of(&header), payload].concat()
}

fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (Ipv6Addr::from_bits(1), Ipv6Addr::from_bits(2));
    let header = Ipv6Header::new(protocol, src, dst, payload.len()).expect("short");
    [&bytes_of(&header), payload].concat()
}

fn tcp() -> Vec<u8> {
    let mut header = TcpHeader::new((1, 2), 3, 4, flags::SYN);
    header.set_header_len(56).expect("legal");
    let options = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7, 1, 1, 5, 10];
    [&bytes_of(&header)[..], &options, &[0; 8], &[1; 4]].concat()
}

fn dhcp(mac: MacAddr) -> Vec<u8> {
    let mut message = [0; 300];
    let header = DhcpHeader::new(BOOTREQUEST, mac, 7);
    let len = DhcpWriter::new(&mut message, &header, 1).finish().expect("room");
    message[..len].to_vec()
}

/// Packets that are right, of every protocol.
fn seeds() -> Vec<Vec<u8>> {
    let (src, mac) = (Ipv6Addr::LOCALHOST.octets(), MacAddr([2, 0, 0, 0, 0, 2]));
    let udp = [bytes_of(&UdpHeader::new(53, 54, 4).expect("short")), vec![9; 4]].concat();
    let arp = ArpPacket::request(mac, [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut ndp = [0; 32];
    NeighborMessage::solicitation(Ipv6Addr::LOCALHOST)
        .emit_message((&src, &src), Some(mac), &mut ndp)
        .expect("room");
    let mut error = [0; 40];
    let len = IcmpHeader::new(icmp_type::UNREACHABLE, 3, 0)
        .emit_message(&ipv4(17, &udp), &mut error)
        .expect("room");
    let mut gre = [0; 16];
    let fields = GreFields { checksum: Some(1), key: Some(2), sequence: Some(3) };
    fields.emit(ethertype::IPV4, &mut gre).expect("room");
    let gre = [&gre[..], &ipv4(17, &udp)].concat();
    let inner = frame(ethertype::IPV6, &ipv6(17, &udp));
    let tunnel = [bytes_of(&VxlanHeader::new(7)), inner].concat();
    let outer = UdpHeader::new(1, vxlan::PORT, tunnel.len()).expect("short");
    let tunnel = [bytes_of(&outer), tunnel].concat();
    let tags = [VlanTag::new(1, ethertype::VLAN), VlanTag::new(2, ethertype::IPV4)];
    let tags = [bytes_of(&tags[0]), bytes_of(&tags[1]), ipv4(6, &tcp())].concat();
    let labels = [MplsLabel::new(16, 0, false, 9), MplsLabel::new(17, 0, true, 9)];
    let labels = [bytes_of(&labels[0]), bytes_of(&labels[1]), ipv4(17, &udp)].concat();
    let hop_by_hop = vec![44, 0, 5, 2, 0, 0, 1, 0];
    let fragment = bytes_of(&FragmentHeader::new(ip_protocol::UDP, 0, true, 7));
    let extensions = [hop_by_hop, fragment, udp.clone()].concat();
    let frames = [
        frame(ethertype::ARP, &bytes_of(&arp)),
        frame(ethertype::IPV4, &ipv4(ip_protocol::UDP, &udp)),
        frame(ethertype::IPV4, &ipv4(ip_protocol::TCP, &tcp())),
        frame(ethertype::IPV4, &ipv4(ip_protocol::ICMP, &error[..len])),
        frame(ethertype::IPV4, &ipv4(ip_protocol::GRE, &gre)),
        frame(ethertype::IPV4, &ipv4(ip_protocol::UDP, &tunnel)),
        frame(ethertype::IPV6, &ipv6(ip_protocol::ICMPV6, &ndp)),
        frame(ethertype::IPV6, &ipv6(ip_protocol::HOP_BY_HOP, &extensions)),
        frame(ethertype::QINQ, &tags),
        frame(ethertype::MPLS, &labels),
    ];
    // And what lies in them, so that every parser also starts at its own header.
    let (ip4, ip6) = (ipv4(6, &tcp()), ipv6(0, &extensions));
    let inner = [ip4, ip6, tcp(), udp, gre, ndp.to_vec(), extensions, dhcp(mac)];
    frames.into_iter().chain(inner).collect()
}

#[test]
fn random_bytes() {
    let mut random = Random::from_seed(0x9e37_79b9_7f4a_7c15);
    for _ in 0..RANDOM {
        let most = if random.below(64) == 0 { 600 } else { 96 };
        let len = random.below(most);
        let bytes: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        every_parser::every_parser(&bytes);
    }
}

#[test]
fn mutated_packets() {
    let mut random = Random::from_seed(0x2545_f491_4f6c_dd1d);
    let seeds = seeds();
    for round in 0..MUTATED {
        let mut bytes = seeds[round % seeds.len()].clone();
        random.mutate(&mut bytes);
        every_parser::every_parser(&bytes);
    }
}

/// The seeds are what they are meant to be: without this, mutating them would test little.
#[test]
fn seeds_reach_the_parsers() {
    for seed in seeds() {
        for cut in 0..seed.len() {
            every_parser::every_parser(&seed[..cut]);
        }
        every_parser::every_parser(&seed);
    }
    let frame = &seeds()[5];
    let (_, ip) = EthernetHeader::parse(frame).expect("a frame");
    let (_, udp) = Ipv4Header::parse(ip).expect("IPv4");
    let (_, tunnel) = UdpHeader::parse(udp).expect("UDP");
    let (vxlan, inner) = VxlanHeader::parse(tunnel).expect("VXLAN");
    let (_, ip) = EthernetHeader::parse(inner).expect("a frame");
    assert_eq!((vxlan.vni(), Ipv6Header::parse(ip).expect("IPv6").1.len()), (7, 12));
}
