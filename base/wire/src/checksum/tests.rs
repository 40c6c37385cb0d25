use super::*;
use proptest::prelude::*;

/// RFC 1071 section 4.1, byte by byte: the oracle.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Bytes with many 0x00 and 0xff, so that sums meet the corners.
fn cornery(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(0xff), any::<u8>()];
    proptest::collection::vec(byte, 0..max)
}

fn word() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0u16), Just(0xffff), Just(1), Just(0xfffe), any::<u16>()]
}

proptest! {
    #[test]
    fn full_is_naive(bytes in cornery(300), start in 0usize..9) {
        let bytes = bytes.get(start..).unwrap_or(&[]); // any alignment
        prop_assert_eq!(checksum(bytes), naive(bytes));
    }

    #[test]
    fn split_anywhere(bytes in cornery(600), a in any::<usize>(), b in any::<usize>()) {
        let a = a % (bytes.len() + 1);
        let b = a + b % (bytes.len() - a + 1);
        let sum = Sum::ZERO.with(&bytes[..a]).with(&bytes[a..b]).with(&bytes[b..]);
        prop_assert_eq!(sum.checksum(), naive(&bytes));
    }

    #[test]
    fn twenty_is_full(bytes in any::<[u8; 20]>()) {
        prop_assert_eq!(checksum_20(&bytes), naive(&bytes));
    }

    #[test]
    fn incremental_u16(mut bytes in cornery(200), at in any::<usize>(), new in word()) {
        bytes.extend([0x45, 0, 0, 0]); // some covered byte stays other than zero
        let at = at % ((bytes.len() - 4) / 2 + 1) * 2;
        prop_assume!(at + 2 <= bytes.len() - 4);
        let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let before = naive(&bytes);
        bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        prop_assert_eq!(Delta::of_u16(old, new).apply(before), naive(&bytes));
        prop_assert_eq!(Delta::of_u16(old, new).inverse().apply(naive(&bytes)), before);
    }

    #[test]
    fn incremental_u32_and_ipv6(
        old in any::<u32>(), new in prop_oneof![Just(0), Just(u32::MAX), any::<u32>()],
        old6 in any::<[u8; 16]>(), new6 in prop_oneof![Just([0; 16]), any::<[u8; 16]>()],
        constant in 1u16..,
    ) {
        let data = |a: u32, b: [u8; 16]| {
            [&constant.to_be_bytes()[..], &a.to_be_bytes(), &b].concat()
        };
        let delta = Delta::of_u32(old, new).and(Delta::of_ipv6(&old6, &new6));
        prop_assert_eq!(delta.apply(naive(&data(old, old6))), naive(&data(new, new6)));
    }

    #[test]
    fn pseudo_headers(
        src in any::<u32>(), dst in any::<u32>(), src6 in any::<[u8; 16]>(),
        dst6 in any::<[u8; 16]>(), protocol in any::<u8>(), body in cornery(99),
    ) {
        let len = body.len() as u16;
        let v4 = [&src.to_be_bytes()[..], &dst.to_be_bytes(), &[0, protocol], &len.to_be_bytes(),
            &body].concat();
        let sum = Sum::pseudo_v4(src, dst, protocol, body.len()).with(&body);
        prop_assert_eq!(sum.checksum(), naive(&v4));
        let v6 = [&src6[..], &dst6, &u32::from(len).to_be_bytes(), &[0, 0, 0, protocol],
            &body].concat();
        let sum = Sum::pseudo_v6(&src6, &dst6, protocol, body.len()).with(&body);
        prop_assert_eq!(sum.checksum(), naive(&v6));
    }
}

#[test]
fn rfc_1071_example() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(checksum(&bytes), !0xddf2);
}

/// RFC 1624 section 4: where RFC 1141's equation gave 0xffff.
#[test]
fn rfc_1624_example() {
    assert_eq!(Delta::of_u16(0x5555, 0x3285).apply(0xdd2f), 0x0000);
}

/// The one place where an update cannot know what a recomputation knows: all covered bytes zero.
#[test]
fn all_zero_corner() {
    let before = checksum(&[0x12, 0x34]);
    assert_eq!(Delta::of_u16(0x1234, 0).apply(before), 0x0000);
    assert_eq!(checksum(&[0, 0]), 0xffff);
}

#[test]
fn udp_none_stays_none() {
    assert_eq!(Delta::of_u16(1, 2).apply_udp(0), 0);
    assert_eq!(Delta::of_u16(0x5555, 0x3285).apply_udp(0xdd2f), 0xffff);
    assert_eq!(Sum::ZERO.with(&[0xff, 0xff]).checksum_udp(), 0xffff);
}

#[test]
fn largest_sums_do_not_overflow() {
    for len in [63, 64, 127, 128, 129, 65_535] {
        let bytes = vec![0xff; len];
        assert_eq!(checksum(&bytes), naive(&bytes), "{len}");
    }
}
