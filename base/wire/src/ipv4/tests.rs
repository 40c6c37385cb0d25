use super::*;
use proptest::prelude::*;

fn sample() -> Ipv4Header {
    let (src, dst) = (Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 199));
    Ipv4Header::new(ip_protocol::UDP, src, dst, 95).unwrap()
}

/// A header known to be right: 45 00 00 73 00 00 40 00 40 11 b8 61 c0 a8 00 01 c0 a8 00 c7.
#[test]
fn emitted_bytes() {
    let mut header = sample();
    header.set_flags_offset(DONT_FRAGMENT);
    header.fill_checksum(&[]);
    assert_eq!(header.checksum(), 0xb861);
    let mut bytes = [0; 120];
    assert_eq!(header.emit(&mut bytes).unwrap().len(), 100);
    assert_eq!(bytes[..8], [0x45, 0, 0, 0x73, 0, 0, 0x40, 0]);
    let (parsed, options, payload) = Ipv4Header::parse_with_options(&bytes).unwrap();
    assert_eq!((parsed, options.len(), payload.len()), (&header, 0, 95));
    assert!(parsed.checksum_ok(options));
}

#[test]
fn each_defect_is_named() {
    let mut bytes = [0; 40];
    sample().emit(&mut bytes).unwrap();
    let defect = |bytes: &[u8]| Ipv4Header::parse(bytes).unwrap_err().defect;
    let len = 40;
    assert_eq!(defect(&bytes[..19]), Defect::TooShort { required_len: 20, len: 19 });
    assert_eq!(defect(&bytes), Defect::BadTotalLength { total_len: 115, len });
    bytes[3] = 19;
    assert_eq!(defect(&bytes), Defect::BadTotalLength { total_len: 19, len });
    bytes[0] = 0x44;
    assert_eq!(defect(&bytes), Defect::BadHeaderLength { header_len: 16 });
    bytes[0] = 0x4f;
    assert_eq!(defect(&bytes), Defect::TooShort { required_len: 60, len });
    bytes[0] = 0x65;
    assert_eq!(defect(&bytes), Defect::BadVersion { version: 6 });
    assert_eq!(Ipv4Header::parse(&bytes).unwrap_err().to_string(), "IPv4: bad version 6");
}

#[test]
fn a_cut_packet_is_read() {
    let mut bytes = [0; 28];
    sample().emit(&mut bytes).unwrap();
    assert!(Ipv4Header::parse(&bytes).is_err());
    assert_eq!(Ipv4Header::parse_cut(&bytes).unwrap().2.len(), 8);
}

#[test]
fn lengths_out_of_range() {
    let any = Ipv4Addr::UNSPECIFIED;
    assert!(Ipv4Header::new(6, any, any, 0xffff - 20).is_ok());
    assert!(Ipv4Header::new(6, any, any, 0xffff - 19).is_err());
    assert!(Ipv4Header::new(6, any, any, usize::MAX).is_err());
    assert!(sample().set_header_len(19).is_err() && sample().set_header_len(61).is_err());
    let mut header = sample();
    header.set_header_len(21).unwrap();
    assert_eq!(header.header_len(), 24);
}

#[test]
fn fragments() {
    let mut header = sample();
    assert!(!header.is_fragment() && header.has_ports());
    header.set_flags_offset(MORE_FRAGMENTS);
    assert!(header.is_fragment() && header.has_ports() && header.more_fragments());
    header.set_flags_offset(185);
    assert!(header.is_fragment() && !header.has_ports());
    assert_eq!(header.fragment_offset(), 1480);
}

proptest! {
    #[test]
    fn updates_keep_the_checksum(
        bytes in any::<[u8; 20]>(), src in any::<u32>(), dst in any::<u32>(), tos in any::<u8>(),
        ttl in any::<u8>(), options in proptest::collection::vec(any::<u8>(), 0..11),
    ) {
        let mut header: Ipv4Header = zerocopy::transmute!(bytes);
        header.version_ihl = 0x45;
        header.set_ttl(ttl);
        header.fill_checksum(&options);
        header.update_src(src);
        header.update_dst(dst);
        header.update_tos(tos);
        header.update_id(src as u16);
        header.update_total_len(dst as u16);
        header.update_flags_offset((dst >> 16) as u16);
        header.decrement_ttl();
        let updated = header;
        header.fill_checksum(&options);
        prop_assert_eq!(updated, header);
        prop_assert!(header.checksum_ok(&options));
        prop_assert_eq!(header.ttl(), ttl.saturating_sub(1));
    }

    #[test]
    fn dscp_and_ecn_are_apart(tos in any::<u8>(), dscp in 0u8..64, ecn in 0u8..4) {
        let mut header = sample();
        header.set_tos(tos);
        header.set_dscp(dscp);
        prop_assert_eq!((header.dscp(), header.ecn()), (dscp, tos & 3));
        header.set_ecn(ecn);
        prop_assert_eq!((header.dscp(), header.ecn()), (dscp, ecn));
    }
}
