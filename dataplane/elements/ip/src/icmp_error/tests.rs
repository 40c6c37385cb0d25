use super::*;
use proptest::prelude::*;
use thruway_wire::checksum;

fn template(icmp_type: u8, code: u8) -> Template {
    Template {
        src: [9, 9, 9, 9].into(),
        icmp_type,
        code,
        bad_addresses: vec![[2, 0, 0, 255].into()],
        mtu: 576,
        pmtu: 1400,
    }
}

/// A packet with these options and payload.
fn packet(protocol: u8, addresses: ([u8; 4], [u8; 4]), options: &[u8], payload: &[u8]) -> Packet {
    let len = options.len() + payload.len();
    let (src, dst) = (addresses.0.into(), addresses.1.into());
    let mut header = Ipv4Header::new(protocol, src, dst, len).unwrap();
    header.set_header_len(20 + options.len()).unwrap();
    header.fill_checksum(options);
    let mut bytes = vec![0; 20];
    header.emit(&mut bytes).unwrap();
    bytes.extend(options);
    bytes.extend(payload);
    let mut packet = Packet::new(&bytes).unwrap();
    packet.set_network(0, 20 + options.len());
    packet
}

const A: [u8; 4] = [1, 0, 0, 1];
const B: [u8; 4] = [2, 0, 0, 2];

#[test]
fn the_quote_is_as_long_as_may_be() {
    let packet = packet(17, (A, B), &[], &[7; 1000]);
    let expired = template(11, 0);
    assert_eq!(expired.check(&packet), Ok(()));
    let answer = expired.answer(&packet, 1).unwrap();
    assert_eq!(answer.len(), 576);
    let (header, payload) = Ipv4Header::parse(answer.data()).unwrap();
    assert_eq!((header.dst_addr().octets(), header.ttl()), (A, 200));
    assert_eq!((payload[0], payload[1], &payload[8..]), (11, 0, &packet.data()[..548]));
}

#[test]
fn what_is_never_answered() {
    let expired = template(11, 0);
    let of = |addresses, protocol, payload: &[u8]| packet(protocol, addresses, &[], payload);
    let udp = |addresses| of(addresses, 17, &[0; 8]);
    assert_eq!(expired.check(&of((A, B), 1, &[3, 0, 0, 0])), Err(Silent::IcmpError));
    assert_eq!(expired.check(&of((A, B), 1, &[8, 0, 0])), Err(Silent::IcmpError));
    assert_eq!(expired.check(&of((A, B), 1, &[8, 0, 0, 0])), Ok(()));
    for dst in [[255; 4], [224, 0, 0, 1], [2, 0, 0, 255]] {
        assert_eq!(expired.check(&udp((A, dst))), Err(Silent::Destination));
    }
    for src in [[0, 1, 2, 3], [127, 0, 0, 1], [240, 0, 0, 1], [255; 4], [2, 0, 0, 255]] {
        assert_eq!(expired.check(&udp((src, B))), Err(Silent::Source));
    }
    let mut link = udp((A, B));
    link.set_kind(PacketKind::Broadcast);
    assert_eq!(expired.check(&link), Err(Silent::Link));
    let mut later = udp((A, B));
    later.data_mut()[7] = 1;
    assert_eq!(expired.check(&later), Err(Silent::Fragment));
    let mut unmarked = udp((A, B));
    unmarked.clear_network();
    assert_eq!(expired.check(&unmarked), Err(Silent::NoHeader));
}

#[test]
fn pointer_gateway_and_mtu() {
    let mut original = packet(17, (A, B), &[], &[0; 8]);
    original.set_anno_number(Anno::ICMP_PARAM, 22);
    original.set_dst_ip([5, 6, 7, 8]);
    let rest = |icmp_type, code| {
        let answer = template(icmp_type, code).answer(&original, 1).unwrap();
        let bytes: [u8; 4] = answer.data()[24..28].try_into().unwrap();
        bytes
    };
    assert_eq!(rest(12, 0), [22, 0, 0, 0]);
    assert_eq!(rest(12, 1), [0; 4]);
    // The pointer shares its annotation space with nothing of the address.
    assert_eq!(rest(5, 1), [5, 6, 7, 8]);
    assert_eq!(rest(3, 4), [0, 0, 0x05, 0x78]);
}

#[test]
fn source_routes_are_returned_reversed() {
    // Two hops done, one to go.
    let route = [131, 15, 12, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0];
    let mut original = packet(17, (A, B), &route, &[0; 8]);
    let answer = template(11, 0).answer(&original, 1).unwrap();
    assert_eq!(answer.data()[20..32], [131, 11, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0]);
    let (header, options, payload) = Ipv4Header::parse_with_options(answer.data()).unwrap();
    assert!(header.checksum_ok(options) && checksum::checksum(payload) == 0);
    assert_eq!(template(5, 1).check(&original), Err(Silent::SourceRoute));
    // A parameter problem with the route itself.
    original.set_anno_number(Anno::ICMP_PARAM, 22);
    let answer = template(12, 0).answer(&original, 1).unwrap();
    assert_eq!(answer.data()[0], 0x45);
}

proptest! {
    /// Whatever is answered is answered with right checksums within the MTU.
    #[test]
    fn errors_are_sound(
        options in prop_oneof![
            Just(vec![]),
            prop::collection::vec(
                prop_oneof![3 => any::<u8>(), 1 => Just(131u8), 2 => 0u8..24],
                40,
            ),
        ],
        payload in prop::collection::vec(any::<u8>(), 0..700),
        pointer in any::<u8>(),
        kind in prop_oneof![Just(3u8), Just(4), Just(5), Just(11), Just(12)],
        code in 0u8..5,
        mtu in MTU_MIN..800usize,
    ) {
        let mut original = packet(17, (A, B), &options, &payload);
        original.set_anno_number(Anno::ICMP_PARAM, u32::from(pointer));
        let template = Template { mtu, ..template(kind, code) };
        if template.check(&original).is_ok() {
            let answer = template.answer(&original, 5).unwrap();
            prop_assert!(answer.len() <= mtu);
            let (header, options, message) =
                Ipv4Header::parse_with_options(answer.data()).unwrap();
            prop_assert!(header.checksum_ok(options));
            prop_assert_eq!(checksum::checksum(message), 0);
            prop_assert_eq!((message[0], message[1]), (kind, code));
            prop_assert_eq!(&message[8..], &original.data()[..message.len() - 8]);
            let full = message.len() - 8 == original.len() || answer.len() == mtu;
            prop_assert!(full);
        }
    }
}
