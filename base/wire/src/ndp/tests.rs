use super::*;
use crate::checksum::Sum;
use crate::ip_protocol;

fn target() -> Ipv6Addr {
    "2001:db8::12:3456".parse().unwrap()
}

#[test]
fn the_group() {
    assert_eq!(solicited_node(target()).to_string(), "ff02::1:ff12:3456");
}

#[test]
fn solicitation_and_advertisement() {
    let (src, dst, mac) = ([1; 16], [2; 16], MacAddr([2, 0, 0, 0, 0, 9]));
    let all = flags::ROUTER | flags::SOLICITED | flags::OVERRIDE;
    for (message, option, kind) in [
        (NeighborMessage::solicitation(target()), NdpOption::SourceLink(mac), 135),
        (NeighborMessage::advertisement(target(), all), NdpOption::TargetLink(mac), 136),
    ] {
        let mut out = [0; 40];
        assert_eq!(message.emit_message((&src, &dst), Some(mac), &mut out), Ok(32));
        let pseudo = Sum::pseudo_v6(&src, &dst, ip_protocol::ICMPV6, 32);
        assert_eq!((out[0], pseudo.with(&out[..32]).checksum()), (kind, 0));
        let (parsed, options) = NeighborMessage::parse(&out[..32]).unwrap();
        assert_eq!((parsed.target_addr(), parsed.flags()), (target(), message.flags()));
        assert_eq!(NdpOptions::new(options).collect::<Vec<_>>(), [Ok(option)]);
        assert_eq!(message.emit_message((&src, &dst), None, &mut out), Ok(24));
        assert!(message.emit_message((&src, &dst), Some(mac), &mut out[..31]).is_err());
    }
}

#[test]
fn other_messages_are_refused() {
    let mut bytes = [0; 40];
    NeighborMessage::solicitation(target()).emit(&mut bytes).unwrap();
    assert!(RouterAdvertisement::parse(&bytes).is_err());
    assert!(Redirect::parse(&bytes).is_err());
    bytes[1] = 1;
    let invalid = Defect::BadField { name: "code", value: 1 };
    assert_eq!(NeighborMessage::parse(&bytes).unwrap_err().defect, invalid);
    bytes[..2].copy_from_slice(&[137, 0]);
    assert!(NeighborMessage::parse(&bytes).is_err());
    assert!(Redirect::parse(&bytes).is_ok());
}

#[test]
fn router_advertisement_with_options() {
    let mut bytes = vec![134, 0, 0, 0, 64, 0xc0, 0x07, 0x08, 0, 0, 0, 1, 0, 0, 0, 2];
    bytes.extend([5, 1, 0, 0, 0, 0, 0x05, 0xdc]);
    bytes.extend([3, 4, 64, 0x80, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 0]);
    bytes.extend([0x20; 16]);
    bytes.extend([4, 1, 0, 0, 0, 0, 0, 0, 200, 1, 0, 0, 0, 0, 0, 1]);
    let (message, options) = RouterAdvertisement::parse(&bytes).unwrap();
    assert_eq!((message.hop_limit(), message.flags(), message.lifetime_s()), (64, 0xc0, 1800));
    assert_eq!((message.reachable_ms(), message.retransmit_ms()), (1, 2));
    let options: Vec<_> = NdpOptions::new(options).map(Result::unwrap).collect();
    let [mtu, NdpOption::Prefix(prefix), redirected, other] = options[..] else {
        panic!("{options:?}");
    };
    assert_eq!(mtu, NdpOption::Mtu(1500));
    assert_eq!((prefix.prefix_len(), prefix.flags(), prefix.valid_s()), (64, 0x80, 9));
    assert_eq!((prefix.preferred_s(), prefix.prefix()), (8, [0x20; 16]));
    assert_eq!(redirected, NdpOption::Redirected(&[]));
    assert_eq!(other, NdpOption::Other { kind: 200, data: &[0, 0, 0, 0, 0, 1] });
}

#[test]
fn bad_option_lengths_end_the_walk() {
    for invalid in [&[1][..], &[1, 0], &[1, 1, 0, 0, 0, 0, 0], &[9, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0]] {
        let items: Vec<_> = NdpOptions::new(invalid).collect();
        assert!(items.last().unwrap().is_err(), "{invalid:?}");
        assert!(items.len() <= 2);
    }
}
