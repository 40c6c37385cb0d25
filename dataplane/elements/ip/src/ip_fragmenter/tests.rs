use super::*;
use proptest::prelude::*;

/// A packet with options and a payload of counting bytes.
fn packet(options: &[u8], payload_len: usize, flags_offset: u16) -> Packet {
    let len = options.len() + payload_len;
    let mut header = Ipv4Header::new(17, [1, 0, 0, 1].into(), [2, 0, 0, 2].into(), len).unwrap();
    header.set_header_len(20 + options.len()).unwrap();
    header.set_flags_offset(flags_offset);
    header.set_id(0x1234);
    header.fill_checksum(options);
    let mut bytes = vec![0; 20];
    header.emit(&mut bytes).unwrap();
    bytes.extend(options);
    bytes.extend((0..payload_len).map(|n| n as u8));
    let mut packet = Packet::new(&bytes).unwrap();
    packet.set_network(0, 20 + options.len());
    packet
}

fn fragments(
    mut first: Packet,
    mtu: usize,
    id: Option<u16>,
) -> Result<Vec<Packet>, IpFragmenterDrop> {
    let mut rest = Batch::new();
    cut(&mut first, mtu, id, &mut rest)?;
    Ok(std::iter::once(first).chain(rest.drain()).collect())
}

/// Options: record route (not copied), router alert (copied), padding.
const OPTIONS: [u8; 12] = [1, 7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0];

#[test]
fn options_are_copied_by_their_bit() {
    let all = fragments(packet(&OPTIONS, 100, 0), 60, None).unwrap();
    assert_eq!(all[0].data()[20..32], OPTIONS);
    assert_eq!(all[1].data()[20..24], [148, 4, 0, 0]);
    let lens: Vec<usize> = all.iter().map(Packet::len).collect();
    // 24 of 28 bytes fit behind 32 bytes of header, 32 of 36 behind 24.
    assert_eq!(lens, [56, 56, 56, 36]);
}

#[test]
fn df_is_respected_or_cleared() {
    let df = || packet(&[], 100, DONT_FRAGMENT);
    assert_eq!(fragments(df(), 60, None).unwrap_err(), IpFragmenterDrop::DontFragment);
    let all = fragments(df(), 60, Some(7)).unwrap();
    for fragment in &all {
        let (header, _) = Ipv4Header::parse(fragment.data()).unwrap();
        assert!(!header.dont_fragment() && header.id() == 7);
    }
    assert_eq!(fragments(df(), 120, None).unwrap()[0].data(), df().data());
}

#[test]
fn packets_that_stand_for_several_are_as_long_as_each_of_these() {
    // TCP without options: 20 bytes of header, then 3,000 of payload.
    let mut large = packet(&[], 3020, 0);
    large.transport_mut()[12] = 0x50;
    assert_eq!(link_len(&large), 3040);
    large.set_anno_number(Anno::SEGMENTS, 3);
    assert_eq!(link_len(&large), 1040);
    large.set_anno_number(Anno::SEGMENTS, 7);
    assert_eq!(link_len(&large), 40 + 429);
    // Fragments are not cut further.
    let all = fragments(large, 400, None).unwrap();
    assert!(all.iter().all(|fragment| fragment.anno_number(Anno::SEGMENTS) == 0));
    // A header that is not there.
    let mut short = packet(&[], 10, 0);
    short.set_anno_number(Anno::SEGMENTS, 2);
    assert_eq!(link_len(&short), 30);
}

#[test]
fn impossible_packets() {
    assert_eq!(fragments(packet(&[], 100, 0), 27, None).unwrap_err(), IpFragmenterDrop::NoRoom);
    assert_eq!(
        fragments(packet(&[], 100, 0x1fff), 60, None).unwrap_err(),
        IpFragmenterDrop::Malformed
    );
    let mut unmarked = packet(&[], 100, 0);
    unmarked.clear_network();
    assert_eq!(fragments(unmarked, 60, None).unwrap_err(), IpFragmenterDrop::Malformed);
    let mut cut_off = packet(&[], 100, 0);
    cut_off.truncate(90);
    assert_eq!(fragments(cut_off, 60, None).unwrap_err(), IpFragmenterDrop::Malformed);
}

#[test]
fn padding_alone_is_cut_off() {
    let mut padded = packet(&[], 20, 0);
    assert!(padded.put(30));
    let all = fragments(padded, 50, None).unwrap();
    assert_eq!((all.len(), all[0].len()), (1, 40));
}

proptest! {
    /// The fragments fit, their headers are right, and together they are the original.
    #[test]
    fn fragments_are_the_whole(
        options in prop_oneof![
            Just(vec![]),
            Just(OPTIONS.to_vec()),
            prop::collection::vec(any::<u8>(), 8..9),
            prop::collection::vec(any::<u8>(), 40..41),
        ],
        payload_len in 1usize..3000,
        mtu in 8usize..1600,
        had_more in any::<bool>(),
        offset in 0u16..5000,
    ) {
        let flags = if had_more { MORE_FRAGMENTS } else { 0 };
        let original = packet(&options, payload_len, flags | offset);
        let bytes = original.data().to_vec();
        let header_len = 20 + options.len();
        let all = match fragments(original, mtu, None) {
            Ok(all) => all,
            Err(bad) => {
                let (room, end) = (mtu.saturating_sub(header_len), usize::from(offset) * 8);
                prop_assert_eq!(bad == IpFragmenterDrop::NoRoom, room < 8);
                prop_assert!(room < 8 || end + payload_len > 65_535);
                return Ok(());
            }
        };
        let mut whole: Vec<u8> = vec![];
        for (n, fragment) in all.iter().enumerate() {
            prop_assert!(fragment.len() <= mtu);
            let (header, options, payload) =
                Ipv4Header::parse_with_options(fragment.network()).unwrap();
            prop_assert!(header.checksum_ok(options));
            let position = usize::from(header.fragment_offset()) - usize::from(offset) * 8;
            prop_assert_eq!(position, whole.len());
            prop_assert_eq!(header.more_fragments(), had_more || n + 1 < all.len());
            prop_assert_eq!((header.id(), header.protocol()), (0x1234, 17));
            whole.extend(payload);
        }
        prop_assert_eq!(&whole[..], &bytes[header_len..]);
        prop_assert_eq!(&all[0].data()[20..header_len], &options[..]);
    }
}
