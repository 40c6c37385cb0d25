use super::*;
use proptest::prelude::*;

fn ip(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)
}

fn template(icmp_type: u8, code: u8) -> Template {
    Template { src: ip(9), icmp_type, code, bad_addresses: vec![ip(8)], pmtu: 1400 }
}

fn packet(next: u8, addresses: (Ipv6Addr, Ipv6Addr), payload: &[u8]) -> Packet {
    let header = Ipv6Header::new(next, addresses.0, addresses.1, payload.len()).unwrap();
    let mut bytes = vec![0; 40];
    header.emit(&mut bytes).unwrap();
    bytes.extend(payload);
    let mut packet = Packet::new(&bytes).unwrap();
    packet.set_network(0, 40);
    packet
}

#[test]
fn what_is_never_answered() {
    let group: Ipv6Addr = "ff02::1".parse().unwrap();
    let expired = template(3, 0);
    let check = |next, src, dst, payload: &[u8]| expired.check(&packet(next, (src, dst), payload));
    assert_eq!(check(17, ip(1), ip(2), &[0; 8]), Ok(()));
    for (kind, wanted) in [(1, false), (127, false), (137, false), (128, true)] {
        assert_eq!(check(58, ip(1), ip(2), &[kind, 0, 0, 0]).is_ok(), wanted, "{kind}");
    }
    assert_eq!(check(58, ip(1), ip(2), &[128]), Err(Silent::IcmpError));
    // Behind destination options, and cut within them.
    let hidden = [58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(check(60, ip(1), ip(2), &hidden), Err(Silent::IcmpError));
    assert_eq!(check(60, ip(1), ip(2), &hidden[..7]), Err(Silent::NoHeader));
    let later = [17, 0, 0, 8, 0, 0, 0, 1, 0, 0];
    assert_eq!(check(44, ip(1), ip(2), &later), Err(Silent::Fragment));
    assert_eq!(check(17, ip(1), group, &[]), Err(Silent::Destination));
    for src in [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, group, ip(8)] {
        assert_eq!(check(17, src, ip(2), &[]), Err(Silent::Source));
    }
    let too_big = template(2, 0);
    assert_eq!(too_big.check(&packet(17, (ip(1), group), &[])), Ok(()));
    let mut link = packet(17, (ip(1), ip(2)), &[]);
    link.set_kind(PacketKind::Multicast);
    assert_eq!((expired.check(&link), too_big.check(&link)), (Err(Silent::Link), Ok(())));
}

#[test]
fn a_redirect_has_target_destination_and_option() {
    let mut original = packet(17, (ip(1), ip(2)), &[7; 21]);
    original.set_dst_ip6(ip(5).octets());
    let answer = template(137, 0).answer(&original).unwrap();
    let body = &answer.data()[48..];
    assert_eq!((&body[..16], &body[16..32]), (&ip(5).octets()[..], &ip(2).octets()[..]));
    // 56 of 61 bytes, in units of 8, and the option's own 8.
    assert_eq!((&body[32..34], body.len()), (&[4, 8][..], 32 + 8 + 56));
    assert_eq!(body[40..], original.data()[..56]);
}

#[test]
fn mtu_and_pointer() {
    let mut original = packet(17, (ip(1), ip(2)), &[]);
    original.set_anno_number(Anno::ICMP_PARAM, 6);
    let rest = |kind| template(kind, 0).answer(&original).unwrap().data()[44..48].to_vec();
    assert_eq!(rest(2), 1400u32.to_be_bytes());
    assert_eq!(rest(4), 6u32.to_be_bytes());
    assert_eq!(rest(1), [0; 4]);
}

proptest! {
    /// Whatever is answered is answered with a right checksum within 1280 bytes.
    #[test]
    fn errors_are_sound(
        next in prop_oneof![Just(17u8), Just(58), Just(0), Just(44), Just(60), any::<u8>()],
        payload in prop::collection::vec(any::<u8>(), 0..1500),
        kind in prop_oneof![Just(1u8), Just(2), Just(3), Just(4), Just(137)],
    ) {
        let original = packet(next, (ip(1), ip(2)), &payload);
        let template = template(kind, 0);
        if template.check(&original).is_ok() {
            let answer = template.answer(&original).unwrap();
            prop_assert!(answer.len() <= MIN_MTU);
            let (header, message) = Ipv6Header::parse(answer.data()).unwrap();
            prop_assert_eq!(header.pseudo_sum(58, message.len()).with(message).checksum(), 0);
            prop_assert_eq!(header.dst_addr(), ip(1));
            if kind != 137 {
                let quote = &message[8..];
                prop_assert_eq!(quote, &original.data()[..quote.len()]);
                prop_assert!(answer.len() == MIN_MTU || quote.len() == original.len());
            }
        }
    }
}
