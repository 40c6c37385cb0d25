//! Every parser over the same bytes. Nothing may panic, whatever they are, and what a parser
//! gives must be part of what it got. Run by the smoke test here and by the fuzz targets.

use std::hint::black_box;
use thruway_wire::arp::ArpPacket;
use thruway_wire::bfd::BfdHeader;
use thruway_wire::checksum::{self, Sum};
use thruway_wire::dhcp::{self, DhcpHeader, DhcpMessage};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::flow::FiveTuple;
use thruway_wire::geneve::{GeneveHeader, GeneveOptions};
use thruway_wire::gre::{GreFields, GreHeader};
use thruway_wire::icmp::IcmpHeader;
use thruway_wire::icmpv6::{Icmpv6Header, icmpv6_type};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv4_option::Ipv4Options;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext::{self, Extension, Extensions, FragmentHeader, Ipv6Options};
use thruway_wire::mpls::{self, MplsLabel};
use thruway_wire::ndp::{NdpOptions, NeighborMessage, Redirect, RouterAdvertisement};
use thruway_wire::nsh::{NshHeader, Variables};
use thruway_wire::tcp::TcpHeader;
use thruway_wire::tcp_option::{TcpOption, TcpOptions};
use thruway_wire::udp::UdpHeader;
use thruway_wire::vlan::{self, VlanTag};
use thruway_wire::vxlan::{self, VxlanHeader};
use thruway_wire::vxlan_gpe::VxlanGpeHeader;
use thruway_wire::{Header, ip_protocol};

/// Most encapsulations that [`packet`] follows; the walk is the test's own.
const MAX_NESTING: usize = 6;

/// At least the length of the longest fixed header, DHCP's with its 240 bytes.
const LONGEST_HEADER: usize = 256;

/// All parsers, each from the first byte.
pub fn every_parser(bytes: &[u8]) {
    let mut copy = bytes.to_vec();
    headers(bytes, &mut copy);
    iterators(bytes);
    rewrite(&mut copy);
    packet(bytes);
}

/// Every option of a message, wherever it stands, and the same message written anew.
pub fn dhcp_message(bytes: &[u8]) {
    let Ok(message) = DhcpMessage::parse(bytes) else { return };
    let mut out = vec![0; 4 * bytes.len() + 1024];
    let kind = message.message_type().unwrap_or(0);
    let mut writer = dhcp::DhcpWriter::new(&mut out, message.header(), kind);
    for code in 1..=254 {
        black_box((message.addresses(code).count(), message.seconds(code)));
        let is_own = [dhcp::option::MESSAGE_TYPE, dhcp::option::OVERLOAD].contains(&code);
        if let Some(data) = message.option(code).filter(|_| !is_own) {
            writer.put(code, data);
        }
    }
    let len = writer.finish().expect("room for all");
    let again = DhcpMessage::parse(&out[..len]).expect("what was written");
    assert_eq!(again.header(), message.header());
    for code in (1..=254).filter(|code| *code != dhcp::option::OVERLOAD) {
        let was = message.option(code);
        let same = code == dhcp::option::MESSAGE_TYPE || again.option(code) == was;
        assert!(same, "option {code}: {was:?} became {:?}", again.option(code));
    }
}

fn headers(bytes: &[u8], copy: &mut [u8]) {
    one::<EthernetHeader>(bytes, copy);
    one::<VlanTag>(bytes, copy);
    one::<ArpPacket>(bytes, copy);
    one::<Ipv4Header>(bytes, copy);
    one::<Ipv6Header>(bytes, copy);
    one::<FragmentHeader>(bytes, copy);
    one::<IcmpHeader>(bytes, copy);
    one::<Icmpv6Header>(bytes, copy);
    one::<NeighborMessage>(bytes, copy);
    one::<RouterAdvertisement>(bytes, copy);
    one::<Redirect>(bytes, copy);
    one::<TcpHeader>(bytes, copy);
    one::<UdpHeader>(bytes, copy);
    one::<MplsLabel>(bytes, copy);
    one::<GreHeader>(bytes, copy);
    one::<VxlanHeader>(bytes, copy);
    one::<VxlanGpeHeader>(bytes, copy);
    one::<GeneveHeader>(bytes, copy);
    one::<NshHeader>(bytes, copy);
    one::<BfdHeader>(bytes, copy);
    one::<DhcpHeader>(bytes, copy);
    dhcp_message(bytes);
    if let Ok((header, options, payload)) = Ipv4Header::parse_cut(bytes) {
        assert_eq!(header.header_len() + payload.len(), bytes.len());
        black_box(header.checksum_ok(options));
    }
    black_box(Ipv6Header::parse_cut(bytes).is_ok());
}

/// What `H` gives lies in a row in `bytes`, and the mutable view, of an equal `copy`, agrees.
fn one<H: Header + PartialEq + std::fmt::Debug>(bytes: &[u8], copy: &mut [u8]) {
    let parsed = H::parse_with_options(bytes);
    match (parsed, H::parse_with_options_mut(copy)) {
        (Ok((header, options, payload)), Ok((header2, options2, payload2))) => {
            assert_eq!(header.as_bytes(), &bytes[..H::LEN]);
            let (from, to) = (H::LEN + options.len(), H::LEN + options.len() + payload.len());
            assert_eq!((options, payload), (&bytes[H::LEN..from], &bytes[from..to]));
            assert_eq!((header, options, payload), (&*header2, &*options2, &*payload2));
            let mut out = [0; LONGEST_HEADER];
            let rest = header.emit(&mut out).map(|rest| rest.len());
            assert_eq!(rest, Ok(LONGEST_HEADER - H::LEN));
            assert_eq!(out[..H::LEN], bytes[..H::LEN]);
        }
        (Err(error), Err(error2)) => {
            assert_eq!(error, error2);
            assert_eq!(error.layer, H::LAYER);
        }
        (one, other) => panic!("{one:?} and {other:?}"),
    }
}

fn iterators(bytes: &[u8]) {
    let most = bytes.len();
    let mut room = vec![0; 2 * most];
    let mut rest = &mut room[..];
    for variable in Variables::new(bytes).flatten() {
        rest = variable.emit(rest).expect("as long as it was");
    }
    let mut rest = &mut room[..];
    for option in GeneveOptions::new(bytes).flatten() {
        rest = option.emit(rest).expect("as long as it was");
    }
    assert!(Ipv4Options::new(bytes).count() <= most);
    for option in Ipv4Options::new(bytes).flatten() {
        assert_eq!(bytes[option.offset], option.kind);
        assert!(option.offset + option.len() <= most);
    }
    assert!(TcpOptions::new(bytes).count() <= most);
    for option in TcpOptions::new(bytes).flatten() {
        if let TcpOption::Sack(blocks) = option {
            assert!(blocks.iter().count() * 8 <= most);
        }
        let mut out = [0; 256];
        assert!(option.emit(&mut out).is_ok());
        assert_eq!(TcpOptions::new(&out).next(), Some(Ok(option)));
    }
    assert!(NdpOptions::new(bytes).count() <= most);
    let whole = Extension { kind: 0, offset: 0, bytes };
    assert!(Ipv6Options::new(&whole).count() <= most);
    let kind = bytes.first().copied().unwrap_or(0);
    assert!(Extensions::new(kind, bytes).count() <= ipv6_ext::MAX_EXTENSIONS + 1);
    if let Ok(upper) = ipv6_ext::upper_layer(kind, bytes) {
        assert_eq!(upper.bytes, &bytes[upper.offset..]);
    }
    black_box(vlan::skip_tags(ethertype::VLAN, bytes).is_ok());
    black_box(mpls::skip_labels(bytes).is_ok());
}

/// Setters that keep checksums, over headers whatever they say.
fn rewrite(bytes: &mut [u8]) {
    let word = bytes.iter().fold(7_u32, |sum, &b| sum.wrapping_mul(31).wrapping_add(b.into()));
    if let Ok((header, options, _)) = Ipv4Header::parse_with_options_mut(bytes) {
        header.fill_checksum(options);
        header.update_src(word);
        header.update_dst(!word);
        header.update_tos(word as u8);
        header.decrement_ttl();
        assert!(header.checksum_ok(options));
        black_box(header.set_header_len(word as usize).is_ok());
    }
    if let Ok((header, _)) = TcpHeader::parse_mut(bytes) {
        header.update_seq(word);
        header.update_src_port(word as u16);
        black_box(header.set_header_len(word as usize % 99).is_ok());
    }
    let pseudo = Sum::pseudo_v4(word, word, 17, bytes.len());
    if UdpHeader::fill_checksum(bytes, pseudo).is_ok() {
        assert_eq!(UdpHeader::checksum_ok(bytes, pseudo), Ok(true));
    }
    if TcpHeader::fill_checksum(bytes, pseudo).is_ok() {
        assert_eq!(pseudo.with(bytes).checksum(), 0);
    }
    if IcmpHeader::fill_checksum(bytes).is_ok() {
        assert_eq!(checksum::checksum(bytes), 0);
    }
    black_box(Icmpv6Header::fill_checksum(bytes, pseudo).is_ok());
}

/// From the frame inwards, as elements do it.
fn packet(frame: &[u8]) {
    let Ok((header, rest)) = EthernetHeader::parse(frame) else { return };
    let Ok((kind, rest)) = vlan::skip_tags(header.ethertype(), rest) else { return };
    network(kind, rest, MAX_NESTING);
}

fn network(kind: u16, bytes: &[u8], nesting: usize) {
    match kind {
        ethertype::IPV4 => ipv4(bytes, nesting),
        ethertype::IPV6 => ipv6(bytes, nesting),
        ethertype::MPLS => {
            let Ok((_, payload)) = mpls::skip_labels(bytes) else { return };
            network(ethertype::IPV4, payload, nesting);
        }
        ethertype::TEB => packet_in_tunnel(bytes, nesting),
        _ => {}
    }
}

fn packet_in_tunnel(bytes: &[u8], nesting: usize) {
    if let (Ok((header, rest)), 1..) = (EthernetHeader::parse(bytes), nesting) {
        network(header.ethertype(), rest, nesting - 1);
    }
}

fn ipv4(bytes: &[u8], nesting: usize) {
    let Ok((header, options, payload)) = Ipv4Header::parse_with_options(bytes) else { return };
    assert!(Ipv4Options::new(options).count() <= 40);
    black_box(FiveTuple::of_ipv4(header, payload).reversed());
    if header.is_first_fragment() {
        transport(header.protocol(), payload, nesting);
    }
}

fn ipv6(bytes: &[u8], nesting: usize) {
    let Ok((header, payload)) = Ipv6Header::parse(bytes) else { return };
    let Ok(upper) = ipv6_ext::upper_layer(header.next_header(), payload) else { return };
    black_box(FiveTuple::of_ipv6(header, &upper).reversed());
    if upper.has_header() {
        transport(upper.protocol, upper.bytes, nesting);
    }
}

fn transport(protocol: u8, bytes: &[u8], nesting: usize) {
    match protocol {
        ip_protocol::TCP => {
            let Ok((_, options, _)) = TcpHeader::parse_with_options(bytes) else { return };
            assert!(TcpOptions::new(options).count() <= 40);
        }
        ip_protocol::UDP => {
            let Ok((header, payload)) = UdpHeader::parse(bytes) else { return };
            if header.dst_port() == vxlan::PORT {
                let Ok((_, frame)) = VxlanHeader::parse(payload) else { return };
                packet_in_tunnel(frame, nesting);
            }
        }
        ip_protocol::ICMP => {
            let Ok((header, quoted)) = IcmpHeader::parse(bytes) else { return };
            if header.is_error() {
                black_box(Ipv4Header::parse_cut(quoted).is_ok());
            }
        }
        ip_protocol::ICMPV6 => icmpv6(bytes),
        ip_protocol::GRE => {
            let Ok((header, options, payload)) = GreHeader::parse_with_options(bytes) else {
                return;
            };
            let mut out = [0; 16];
            let fields = GreFields::read(header, options);
            let behind = fields.emit(header.protocol(), &mut out).expect("16 bytes are enough");
            assert_eq!(behind.len() + GreHeader::LEN + options.len(), 16);
            if nesting > 0 {
                network(header.protocol(), payload, nesting - 1);
            }
        }
        _ => {}
    }
}

fn icmpv6(bytes: &[u8]) {
    let Ok((header, options)) = Icmpv6Header::parse(bytes) else { return };
    let options = match header.icmp_type() {
        icmpv6_type::ROUTER_SOLICITATION => options,
        icmpv6_type::ROUTER_ADVERTISEMENT => {
            RouterAdvertisement::parse(bytes).map_or(&[][..], |(_, options)| options)
        }
        icmpv6_type::REDIRECT => Redirect::parse(bytes).map_or(&[][..], |(_, options)| options),
        _ => NeighborMessage::parse(bytes).map_or(&[][..], |(_, options)| options),
    };
    black_box(NdpOptions::new(options).count());
}
