//! ICMP errors against such as are written anew.

use proptest::prelude::*;
use thruway_wire::checksum::checksum;

use crate::alone::marked;
use crate::plain::{Plain, error_about};
use crate::rewrite::{Ends, Ports};
use crate::rewriters::icmp_rewriter::{quoted, set_back};

proptest! {
    /// What an error quotes is as its sender sent it, with right checksums wherever they are
    /// quoted.
    #[test]
    fn quoted_packets_are_set_back(
        protocol in prop_oneof![Just(6u8), Just(17), Just(1), Just(47)],
        ends in prop::array::uniform4((any::<u32>(), any::<u16>())),
        sets in prop::array::uniform2(any::<bool>()), udp_checksum in any::<bool>(), cut in 28usize..90,
        payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let [mut src, mut dst, mut old_src, mut old_dst] = ends;
        let has_ports = matches!(protocol, 6 | 17);
        match protocol {
            1 => (dst.1, old_dst.1) = (src.1, old_src.1),
            47 => [src.1, dst.1, old_src.1, old_dst.1] = [0; 4],
            _ => {}
        }
        let of_addresses = protocol == 47;
        if of_addresses {
            // An address rewriter sets one of them, or both.
            if !sets[0] { old_src = src }
            if !sets[1] { old_dst = dst }
        }
        let now = Plain { protocol, src, dst, flags: 0, numbers: (7, 8), payload, udp_checksum };
        let then = Plain { src: old_src, dst: old_dst, ..now.clone() };
        let answer = Ends {
            src: (!of_addresses || sets[1]).then_some(old_dst.0),
            dst: (!of_addresses || sets[0]).then_some(old_src.0),
            ports: match protocol {
                1 => Ports::Ident(old_src.1),
                47 => Ports::Keep,
                _ => Ports::Both(old_dst.1, old_src.1),
            },
        };
        let mut error = marked(&error_about(5, 6, &now.written(), cut));
        let was = quoted(error.transport()).unwrap();
        prop_assert_eq!((was.src, was.dst, was.ports.is_some()), (src.0, dst.0, has_ports));
        prop_assert!(set_back(&mut error, &was, &answer).is_some());
        prop_assert_eq!(checksum(error.transport()), 0);
        if protocol != 6 || cut >= 20 + 18 {
            prop_assert_eq!(error.data(), &error_about(5, 6, &then.written(), cut)[..]);
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_none(
        bytes in prop::collection::vec(any::<u8>(), 28..90), kind in prop_oneof![Just(3u8), Just(11), any::<u8>()],
        inner in prop_oneof![Just(1u8), Just(6), Just(17), any::<u8>()],
        ports in prop_oneof![Just(Ports::Keep), Just(Ports::Both(1, 2)), Just(Ports::Ident(3))],
    ) {
        let mut bytes = bytes;
        (bytes[0], bytes[9], bytes[20]) = (0x45, 1, kind);
        if let Some(protocol) = bytes.get_mut(37) {
            *protocol = inner;
        }
        let mut packet = marked(&bytes);
        if let Some(was) = quoted(packet.transport()) {
            set_back(&mut packet, &was, &Ends { src: Some(1), dst: Some(2), ports });
        }
    }
}
