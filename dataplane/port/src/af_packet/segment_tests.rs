use super::*;
use proptest::prelude::*;

/// A frame of `payload_len` bytes of payload, with fields that the segments must change.
pub fn frame(is_ipv6: bool, is_tcp: bool, is_tagged: bool, payload_len: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if is_tagged {
        frame.extend([0x81, 0x00, 0x00, 0x05]);
    }
    let protocol = if is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
    if is_ipv6 {
        frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
        frame.extend(0..32);
    } else {
        frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 0xFF, 0xFF, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    }
    if is_tcp {
        frame.extend([0, 80, 1, 0, 0xFF, 0xFF, 0xFF, 0x00, 0, 0, 0, 1, 0x60]);
        frame.extend([TCP_FIN | TCP_PSH | TCP_CWR | 0x10, 1, 1, 0, 0, 0, 0, 2, 4, 5, 0xB4]);
    } else {
        frame.extend([0, 53, 0, 53, 0, 0, 0, 0]);
    }
    frame.extend((0..payload_len).map(|i| (i % 251) as u8));
    frame
}

pub fn segments(frame: &[u8], segment_len: usize) -> Option<Vec<Vec<u8>>> {
    let mut segmenter = Segmenter::default();
    if !segmenter.load(frame, segment_len, true) {
        return None;
    }
    let mut all = Vec::new();
    while let Some(segment) = segmenter.next_segment() {
        all.push(segment.to_vec());
    }
    assert!(!segmenter.is_pending());
    Some(all)
}

/// The sum of everything a checksum covers, byte pair by byte pair: all ones when it is right.
fn naive_sum(pieces: &[&[u8]]) -> u32 {
    let bytes = pieces.concat();
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    let sum = (sum >> 16) + (sum & 0xFFFF);
    (sum >> 16) + (sum & 0xFFFF)
}

pub fn assert_checksums(segment: &[u8], plan: &Plan) {
    let protocol = if plan.is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
    let len = ((segment.len() - plan.l4) as u16).to_be_bytes();
    let addresses = if plan.is_ipv6 {
        &segment[plan.l3 + 8..plan.l3 + 40]
    } else {
        assert_eq!(naive_sum(&[&segment[plan.l3..plan.l4]]), 0xFFFF, "IP header");
        &segment[plan.l3 + 12..plan.l3 + 20]
    };
    let sum = naive_sum(&[addresses, &[0, protocol], &len, &segment[plan.l4..]]);
    assert_eq!(sum, 0xFFFF, "transport");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn segments_are_whole_frames_that_carry_the_payload_in_order(
        (is_ipv6, is_tcp, is_tagged) in any::<(bool, bool, bool)>(),
        payload_len in 0..20_000_usize,
        segment_len in 1..2000_usize,
    ) {
        let frame = frame(is_ipv6, is_tcp, is_tagged, payload_len);
        let plan = plan(&frame, segment_len, true).expect("plain headers");
        let segments = segments(&frame, segment_len).expect("plain headers");
        prop_assert_eq!(segments.len(), payload_len.div_ceil(segment_len).max(1));
        let mut payload = Vec::new();
        for (i, segment) in segments.iter().enumerate() {
            assert_checksums(segment, &plan);
            let u16_at = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
            let ip_len = segment.len() - plan.l3;
            if is_ipv6 {
                prop_assert_eq!(usize::from(u16_at(plan.l3 + 4)), ip_len - 40);
            } else {
                prop_assert_eq!(usize::from(u16_at(plan.l3 + 2)), ip_len);
                prop_assert_eq!(u16_at(plan.l3 + 4), 0xFFFF_u16.wrapping_add(i as u16));
            }
            if is_tcp {
                let seq = segment[plan.l4 + 4..plan.l4 + 8].try_into().expect("four");
                let expected = 0xFFFF_FF00_u32.wrapping_add((i * segment_len) as u32);
                prop_assert_eq!(u32::from_be_bytes(seq), expected);
                let flags = segment[plan.l4 + 13];
                let is_last = i + 1 == segments.len();
                prop_assert_eq!(flags & (TCP_FIN | TCP_PSH) != 0, is_last);
                prop_assert_eq!(flags & TCP_CWR != 0, i == 0);
            } else {
                prop_assert_eq!(usize::from(u16_at(plan.l4 + 4)), segment.len() - plan.l4);
            }
            payload.extend_from_slice(&segment[plan.payload..]);
        }
        prop_assert_eq!(&payload[..], &frame[plan.payload..]);
    }

    #[test]
    fn hostile_frames_are_refused_or_cut_without_panic(
        (is_ipv6, is_tcp, is_tagged) in any::<(bool, bool, bool)>(),
        cut in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        segment_len in 0..70_000_usize,
    ) {
        let mut frame = frame(is_ipv6, is_tcp, is_tagged, 100);
        let at = at.index(frame.len());
        frame[at] = value;
        frame.truncate(cut.index(frame.len()));
        segments(&frame, segment_len);
    }
}

#[test]
fn what_is_not_plain_tcp_or_udp_is_refused() {
    let good = frame(true, true, false, 10);
    let mut fragment = good.clone();
    fragment[14 + 6] = 44;
    assert!(segments(&fragment, 1000).is_none());
    assert!(segments(&good, 0).is_none());
    assert!(segments(&good, 1000).is_some());
}
