use super::*;
use proptest::prelude::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn message(options: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = vec![0xee; LEN_MAX];
    let header = DhcpHeader::new(BOOTREQUEST, MAC, 0x0102_0304);
    let mut writer = DhcpWriter::new(&mut out, &header, message_type::DISCOVER);
    options.iter().for_each(|(code, data)| writer.put(*code, data));
    let len = writer.finish().unwrap();
    out.truncate(len);
    out
}

#[test]
fn the_layout_is_that_of_the_rfc() {
    let bytes = message(&[(option::LEASE_TIME, &[0, 0, 14, 16])]);
    assert_eq!((DhcpHeader::LEN, bytes.len()), (240, LEN_MIN));
    assert_eq!(bytes[..8], [1, 1, 6, 0, 1, 2, 3, 4]);
    assert_eq!(bytes[28..34], MAC.0);
    assert_eq!(bytes[236..249], [99, 130, 83, 99, 53, 1, 1, 51, 4, 0, 0, 14, 16]);
    assert_eq!(bytes[249], option::END);
    let message = DhcpMessage::parse(&bytes).unwrap();
    assert_eq!(message.header().mac(), Some(MAC));
    assert_eq!(message.message_type(), Some(message_type::DISCOVER));
    assert_eq!(message.seconds(option::LEASE_TIME), Some(3600));
}

#[test]
fn what_is_refused() {
    let good = message(&[]);
    assert!(DhcpMessage::parse(&good[..239]).is_err());
    // Operation, length of the hardware address, cookie.
    for (at, value) in [(0, 3), (2, 17), (236, 98)] {
        let mut invalid = good.clone();
        invalid[at] = value;
        assert!(DhcpMessage::parse(&invalid).is_err(), "{at}");
    }
    assert!(DhcpMessage::parse(&good[..243]).is_ok());
    assert!(DhcpMessage::parse(&good[..242]).is_err(), "type without its value");
}

#[test]
fn options_go_on_in_file_and_sname() {
    let mut bytes = message(&[(option::OVERLOAD, &[3])]);
    bytes[108..114].copy_from_slice(&[option::ROUTER, 4, 10, 0, 0, 1]);
    bytes[44..50].copy_from_slice(&[option::ROUTER, 4, 10, 0, 0, 2]);
    bytes[50..56].copy_from_slice(&[option::DNS, 4, 10, 0, 0, 3]);
    let message = DhcpMessage::parse(&bytes).unwrap();
    assert_eq!(message.address(option::ROUTER), Some([10, 0, 0, 1].into()));
    assert_eq!(message.address(option::DNS), Some([10, 0, 0, 3].into()));
    bytes[51] = 200;
    assert!(DhcpMessage::parse(&bytes).is_err(), "an option longer than sname");
}

#[test]
fn addresses_come_whole() {
    let bytes = message(&[(option::DNS, &[1, 1, 1, 1, 2, 2, 2, 2]), (option::ROUTER, &[1, 2, 3])]);
    let message = DhcpMessage::parse(&bytes).unwrap();
    let dns: Vec<Ipv4Addr> = message.addresses(option::DNS).collect();
    assert_eq!(dns, [Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(2, 2, 2, 2)]);
    assert_eq!(message.address(option::ROUTER), None);
}

#[test]
fn a_writer_says_what_does_not_fit() {
    let header = DhcpHeader::new(BOOTREPLY, MAC, 1);
    for len in 0..250 {
        let mut out = vec![0; len];
        let mut writer = DhcpWriter::new(&mut out, &header, message_type::ACK);
        writer.put_addresses(option::ROUTER, &[Ipv4Addr::LOCALHOST]);
        assert_eq!(writer.finish().is_ok(), len == 250, "{len}");
    }
    let mut out = vec![0; 250];
    let mut writer = DhcpWriter::new(&mut out, &header, message_type::ACK);
    writer.put_addresses(option::ROUTER, &[Ipv4Addr::LOCALHOST]);
    assert_eq!(writer.finish(), Ok(250));
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        options in proptest::collection::vec(
            (1u8..=254, proptest::collection::vec(any::<u8>(), 0..20)), 0..8),
    ) {
        // (Where options go on elsewhere is another test's.)
        let options: Vec<(u8, &[u8])> = options.iter()
            .filter(|(code, _)| ![option::OVERLOAD, option::MESSAGE_TYPE].contains(code))
            .map(|(code, data)| (*code, &data[..])).collect();
        let bytes = message(&options);
        let message = DhcpMessage::parse(&bytes).unwrap();
        for (code, _) in &options {
            let first = options.iter().find(|(other, _)| other == code).map(|(_, data)| *data);
            prop_assert_eq!(message.option(*code), first);
        }
    }
}
