//! Messages are read back by a library that has nothing in common with this code.

use std::net::Ipv6Addr;

use netflow_parser::variable_versions::field_value::FieldValue;
use netflow_parser::variable_versions::ipfix::FlowSetBody;
use netflow_parser::{NetflowPacket, NetflowParser};
use proptest::prelude::*;

use super::*;
use crate::session_stats::record::Endpoints;

fn direction() -> impl Strategy<Value = DirectionCounts> {
    let time = || (0..4_000_000_000_000_000_000i64).prop_map(|ns| ns / 1_000_000 * 1_000_000);
    let packets = prop_oneof![Just(0), any::<u32>()];
    (packets, any::<u64>(), time(), time(), any::<u8>()).prop_map(
        |(packets, bytes, first, last, flags)| DirectionCounts {
            packets: packets.into(),
            bytes,
            first,
            last,
            flags,
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let ends = prop_oneof![
        Just(None),
        Just(Some(Ended::TimedOut)),
        Just(Some(Ended::Closed)),
        Just(Some(Ended::Removed)),
        Just(Some(Ended::Evicted)),
    ];
    let addresses = prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
        any::<[[u8; 16]; 2]>().prop_map(|pair| pair.map(|bytes| Ipv6Addr::from(bytes).into())),
    ];
    let endpoints =
        (addresses, any::<u16>(), any::<u16>(), prop_oneof![Just(6u8), Just(17), Just(1)])
            .prop_map(|([src, dst], src_port, dst_port, protocol)| Endpoints {
                src,
                dst,
                src_port,
                dst_port,
                protocol,
            });
    (endpoints, direction(), direction(), ends).prop_map(|(endpoints, forward, reply, ended)| {
        Record { endpoints, paths: [forward, reply], ended }
    })
}

/// A value as text, numbers as they were sent.
fn plain(name: &str, value: &FieldValue) -> String {
    let number = match value {
        FieldValue::Ip4Addr(addr) => return addr.to_string(),
        FieldValue::Ip6Addr(addr) => return addr.to_string(),
        FieldValue::Duration(time) => format!("{time:?}"),
        FieldValue::DataNumber(number) => format!("{number:?}"),
        other => format!("{other:?}"),
    };
    format!("{name} {number}")
}

/// All data records of messages, each a list of fields.
fn read_back(messages: &[Vec<u8>]) -> Vec<Vec<String>> {
    let mut parser = NetflowParser::default();
    let mut records = Vec::new();
    for message in messages {
        let result = parser.parse_bytes(message);
        assert!(result.error.is_none(), "{:?}", result.error);
        for packet in result.packets {
            let NetflowPacket::IPFix(ipfix) = packet else { panic!("not IPFIX") };
            for set in ipfix.flowsets {
                let FlowSetBody::Data(data) = set.body else { continue };
                records.extend(data.fields.iter().map(|fields| {
                    let text = |(field, value)| plain(&format!("{field:?}"), value);
                    fields.iter().map(|(field, value)| text((field, value))).collect()
                }));
            }
        }
    }
    records
}

/// What must be read of a direction.
fn expected_direction(reverse: bool, direction: &DirectionCounts) -> Vec<String> {
    let name = |element: &str| match reverse {
        true => format!("ReverseInformationElement(Reverse{element})"),
        false => format!("IANA({element})"),
    };
    let time =
        |element, ns| format!("{} Millis {{ value: {}, width: 8 }}", name(element), ns / 1_000_000);
    let names = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    let bits: String = names
        .iter()
        .enumerate()
        .map(|(bit, flag)| format!("{flag}: {}, ", direction.flags >> bit & 1 == 1))
        .collect();
    vec![
        time("FlowStartMilliseconds", direction.first),
        time("FlowEndMilliseconds", direction.last),
        format!("{} U64({})", name("PacketDeltaCount"), direction.packets),
        format!("{} U64({})", name("OctetDeltaCount"), direction.bytes),
        format!(
            "{} TcpControlBits(TcpControlBits {{ {bits}ns: false }}, 1)",
            name("TcpControlBits")
        ),
    ]
}

fn expected(record: &Record) -> Vec<String> {
    let [forward, reply] = &record.paths;
    let is_of_replies = forward.packets == 0 && reply.packets > 0;
    let endpoints = if is_of_replies { record.endpoints.reversed() } else { record.endpoints };
    let protocol = match endpoints.protocol {
        6 => "Tcp",
        17 => "Udp",
        _ => "Icmp",
    };
    let reason = match record.ended {
        Some(Ended::TimedOut) => "IdleTimeout",
        None => "ActiveTimeout",
        Some(Ended::Closed) => "EndOfFlow",
        Some(Ended::Removed) => "ForcedEnd",
        Some(Ended::Evicted) => "LackOfResources",
    };
    let mut fields = vec![
        endpoints.src.to_string(),
        endpoints.dst.to_string(),
        format!("IANA(ProtocolIdentifier) ProtocolType({protocol})"),
        format!("IANA(SourceTransportPort) U16({})", endpoints.src_port),
        format!("IANA(DestinationTransportPort) U16({})", endpoints.dst_port),
        format!("IANA(FlowEndReason) FlowEndReason({reason})"),
    ];
    fields.extend(expected_direction(false, if is_of_replies { reply } else { forward }));
    if forward.packets > 0 && reply.packets > 0 {
        fields.extend(expected_direction(true, reply));
    }
    fields
}

/// All messages of records that are a second apart.
fn messages(records: &[Record]) -> Vec<(Vec<u8>, u32)> {
    let mut messages = Vec::new();
    let mut exporter = Exporter::new(7);
    let mut send = |message: &[u8], count| messages.push((message.to_vec(), count));
    for (second, record) in records.iter().enumerate() {
        exporter.add(record, second as i64 * 1_000_000_000, &mut send);
    }
    exporter.finish(1_000_000_000_000, &mut send);
    messages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_library_reads_what_was_written(
        records in proptest::collection::vec(record(), 0..150),
    ) {
        let messages = messages(&records);
        let mut sequence = 0;
        for (message, count) in &messages {
            prop_assert!(message.len() <= MESSAGE_MAX);
            let number = |at| u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
            prop_assert_eq!((number(8), number(12)), (sequence, 7));
            sequence += count;
        }
        prop_assert_eq!(sequence as usize, records.len());
        let read = read_back(&messages.into_iter().map(|(bytes, _)| bytes).collect::<Vec<_>>());
        let wanted: Vec<Vec<String>> = records.iter().map(expected).collect();
        prop_assert_eq!(read, wanted);
    }
}

#[test]
fn templates_are_repeated() {
    let endpoints =
        Endpoints { src: [1; 4].into(), dst: [2; 4].into(), src_port: 3, dst_port: 4, protocol: 6 };
    let record = Record { endpoints, paths: [DirectionCounts::default(); 2], ended: None };
    let messages = messages(&vec![record; 200]);
    let with_templates = messages.iter().filter(|(m, _)| m[16..18] == [0, 2]).count();
    // Some 20 records in a message, a record a second, so one in three messages.
    assert!((2..=4).contains(&with_templates), "{with_templates} of {}", messages.len());
}
