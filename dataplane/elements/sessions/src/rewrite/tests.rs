use proptest::prelude::*;
use thruway_packet::Packet;
use thruway_wire::checksum::checksum;

use super::*;
use crate::plain::{Plain, error_about};

fn packet(bytes: &[u8]) -> Packet {
    let mut packet = Packet::new(bytes).unwrap();
    packet.set_network(0, 20);
    packet
}

/// The packet after translation: fields exchanged in the plain one.
fn plainly(plain: &Plain, end: End, new: (u32, u16)) -> Plain {
    let mut plain = plain.clone();
    let place = if end == End::Source { &mut plain.src } else { &mut plain.dst };
    *place = new;
    if plain.protocol == 1 {
        (plain.src.1, plain.dst.1) = (new.1, new.1);
    }
    plain
}

/// A session: its first packet as it came and as it left, and its translation.
fn session() -> impl Strategy<Value = (Plain, Plain, End, Translation)> {
    let end = prop_oneof![Just(End::Source), Just(End::Destination)];
    let corner = || prop_oneof![Just(0u32), Just(u32::MAX), any::<u32>()];
    let port = || prop_oneof![Just(0u16), Just(u16::MAX), any::<u16>()];
    let protocol = prop_oneof![Just(6u8), Just(17), Just(1), Just(47)];
    let ends = (corner(), port(), corner(), port(), corner(), port());
    let payload = proptest::collection::vec(any::<u8>(), 0..40);
    (protocol, ends, end, payload, any::<bool>()).prop_map(
        |(protocol, (a, ap, b, bp, new, new_port), end, payload, udp_checksum)| {
            let ported = protocol != 47;
            let at = |addr, port| (addr, if ported { port } else { 0 });
            let (src, dst) = (at(a, ap), at(b, if protocol == 1 { ap } else { bp }));
            let before =
                Plain { protocol, src, dst, flags: 0x10, numbers: (7, 8), payload, udp_checksum };
            let old = if end == End::Source { src } else { dst };
            let new = at(new, new_port);
            let after = plainly(&before, end, new);
            let translation = Translation::new(protocol, old, new).unwrap();
            (before, after, end, translation)
        },
    )
}

proptest! {
    #[test]
    fn both_directions_are_as_if_written_so((before, after, end, translation) in session()) {
        let mut forward = packet(&before.written());
        translation.apply(&mut forward, end, Direction::Forward, false).unwrap();
        prop_assert_eq!(forward.data(), &after.written()[..]);
        let mut reply = packet(&after.reversed().written());
        translation.apply(&mut reply, end, Direction::Reply, false).unwrap();
        prop_assert_eq!(reply.data(), &before.reversed().written()[..]);
    }

    /// An error quotes the translated packet; the sender must see the packet that it sent.
    #[test]
    fn errors_quote_what_their_reader_sent(
        (before, after, end, translation) in session(), router in any::<u32>(), cut in 28usize..90,
    ) {
        // About a forward packet: it goes to the packet's source.
        let shown = if end == End::Destination { before.dst.0 } else { router };
        let comes = error_about(router, after.src.0, &after.written(), cut);
        let leaves = error_about(shown, before.src.0, &before.written(), cut);
        let mut error = packet(&comes);
        translation.apply(&mut error, end, Direction::Reply, true).unwrap();
        let whole = cut >= 20 + 18 || before.protocol != 6;
        prop_assert_eq!(checksum(&error.data()[20..]), 0);
        prop_assert_eq!(checksum(&error.data()[..20]), 0);
        prop_assert!(!whole || error.data() == leaves);
        // About a reply: it goes to the server's side.
        let shown = if end == End::Source { after.src.0 } else { router };
        let comes = error_about(router, before.dst.0, &before.reversed().written(), cut);
        let leaves = error_about(shown, after.dst.0, &after.reversed().written(), cut);
        let mut error = packet(&comes);
        translation.apply(&mut error, end, Direction::Forward, true).unwrap();
        prop_assert!(!whole || error.data() == leaves);
    }

    #[test]
    fn no_bytes_are_too_strange(
        bytes in proptest::collection::vec(any::<u8>(), 0..80), header in 0usize..64,
        end in prop_oneof![Just(End::Source), Just(End::Destination)],
        direction in prop_oneof![Just(Direction::Forward), Just(Direction::Reply)],
        protocol in prop_oneof![Just(1u8), Just(6), Just(17), any::<u8>()], related in any::<bool>(),
    ) {
        let translation = Translation::new(17, (1, 2), (3, 4)).unwrap();
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, header);
        if let Some(head) = packet.network_head_mut::<20>() {
            head[9] = protocol;
        }
        let before = packet.data().to_vec();
        if translation.apply(&mut packet, end, direction, related).is_err() {
            prop_assert_eq!(packet.data(), &before[..]);
        }
    }
}

#[test]
fn tuples_are_translated_as_packets_are() {
    let tuple = FiveTuple { src: 1, dst: 2, src_port: 3, dst_port: 4, protocol: 6 };
    let translation = Translation::new(6, (2, 4), (9, 80)).unwrap();
    let wanted = FiveTuple { dst: 9, dst_port: 80, ..tuple };
    assert_eq!(translation.translated(End::Destination, tuple), wanted);
    let query = FiveTuple { src: 1, dst: 2, src_port: 3, dst_port: 3, protocol: 1 };
    let translation = Translation::new(1, (1, 3), (8, 7)).unwrap();
    let wanted = FiveTuple { src: 8, src_port: 7, dst_port: 7, ..query };
    assert_eq!(translation.translated(End::Source, query), wanted);
}

#[test]
fn ports_that_cannot_change_are_refused() {
    assert_eq!(Translation::new(132, (1, 2), (3, 4)), Err(Untranslatable::Port));
    assert!(Translation::new(132, (1, 2), (3, 2)).is_ok());
    assert_eq!(size_of::<Translation>(), 16);
}
