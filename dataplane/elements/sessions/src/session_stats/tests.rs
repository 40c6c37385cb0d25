//! The ledger against packets that are added up one by one.

use std::collections::HashMap;
use std::net::IpAddr;

use proptest::prelude::*;
use thruway_element::Verdict;
use thruway_wire::flow::FiveTuple;

use super::record::{DirectionCounts, Endpoints, Record};
use super::*;
use crate::alone::{Table, Tuple, marked};
use crate::plain::{Plain, error_about};
use thruway_elements_rig::Rig;

const SECOND: i64 = 1_000_000_000;

#[derive(Clone, Debug)]
enum Event {
    Packet { tuple: Tuple, reply: bool, flags: u8, payload: usize },
    Error(Tuple),
    End(Tuple),
    Time(i64),
}

fn event() -> impl Strategy<Value = Event> {
    let protocol = prop_oneof![Just(6u8), Just(17), Just(1)];
    let tuple = (0u32..3, 0u16..3, protocol).prop_map(|(src, port, protocol)| {
        let dst_port = if protocol == 1 { port } else { 80 };
        FiveTuple { src: 10 + src, dst: 1, src_port: port, dst_port, protocol }
    });
    prop_oneof![
        9 => (tuple.clone(), any::<bool>(), any::<u8>(), 0usize..100).prop_map(
            |(tuple, reply, flags, payload)| Event::Packet { tuple, reply, flags, payload }),
        1 => tuple.clone().prop_map(Event::Error),
        3 => tuple.prop_map(Event::End),
        3 => (0..5 * SECOND).prop_map(Event::Time),
    ]
}

/// A session as the oracle has it: the first packet's tuple, and all packets.
#[derive(Default)]
struct Oracle {
    open: HashMap<Tuple, Vec<Seen>>,
    /// All that ended, added up by tuple.
    sums: HashMap<Tuple, [DirectionCounts; 2]>,
    ended: usize,
}

struct Seen {
    reply: bool,
    bytes: u64,
    at: i64,
    flags: u8,
}

fn added(
    mut direction: DirectionCounts,
    packets: u64,
    bytes: u64,
    (first, last): (i64, i64),
    flags: u8,
) -> DirectionCounts {
    direction.first = if direction.packets == 0 { first } else { direction.first.min(first) };
    direction.last = direction.last.max(last);
    (direction.packets, direction.bytes, direction.flags) =
        (direction.packets + packets, direction.bytes + bytes, direction.flags | flags);
    direction
}

impl Oracle {
    fn end(&mut self, tuple: &Tuple) {
        let Some(packets) = self.open.remove(tuple) else { return };
        self.ended += 1;
        let sums = self.sums.entry(*tuple).or_default();
        for seen in packets {
            let direction = &mut sums[usize::from(seen.reply)];
            *direction = added(*direction, 1, seen.bytes, (seen.at, seen.at), seen.flags);
        }
    }
}

fn tuple_of(endpoints: &Endpoints) -> Tuple {
    let addr = |addr| match addr {
        IpAddr::V4(addr) => u32::from(addr),
        IpAddr::V6(_) => panic!("IPv4 went in"),
    };
    let (src, dst) = (addr(endpoints.src), addr(endpoints.dst));
    FiveTuple {
        src,
        dst,
        src_port: endpoints.src_port,
        dst_port: endpoints.dst_port,
        protocol: endpoints.protocol,
    }
}

/// Times are kept to the millisecond.
fn in_ms(paths: [DirectionCounts; 2]) -> [DirectionCounts; 2] {
    paths.map(|direction| DirectionCounts {
        first: direction.first / 1_000_000,
        last: direction.last / 1_000_000,
        ..direction
    })
}

/// The records, added up by tuple.
fn sums(records: &[Record]) -> HashMap<Tuple, [DirectionCounts; 2]> {
    let mut sums: HashMap<Tuple, [DirectionCounts; 2]> = HashMap::new();
    for record in records {
        let all = sums.entry(tuple_of(&record.endpoints)).or_default();
        for (sum, direction) in
            all.iter_mut().zip(&record.paths).filter(|(_, direction)| direction.packets > 0)
        {
            let times = (direction.first, direction.last);
            *sum = added(*sum, direction.packets, direction.bytes, times, direction.flags);
        }
    }
    sums
}

proptest! {
    #[test]
    fn records_add_up_to_what_was_seen(
        active_s in prop_oneof![Just(0u16), 1u16..8],
        events in proptest::collection::vec(event(), 1..150),
    ) {
        let ledger = Ledger::new(SessionDef::connection(), active_s, 1000, 1000);
        let mut table = Table::new(ledger);
        table.now = 1_700_000_000 * SECOND + 123_456_789;
        let (mut oracle, mut related) = (Oracle::default(), 0);
        for event in events {
            match event {
                Event::Packet { tuple, mut reply, flags, payload } => {
                    reply &= oracle.open.contains_key(&tuple);
                    let direction = if reply { tuple.reversed() } else { tuple };
                    let plain = Plain { payload: vec![0; payload], ..Plain::of(direction, flags) };
                    let written = plain.written();
                    prop_assert_eq!(table.push(&written).0, Verdict::Pass);
                    let flags = if tuple.protocol == 6 { flags } else { 0 };
                    let (bytes, at) = (written.len() as u64, table.now);
                    oracle.open.entry(tuple).or_default().push(Seen { reply, bytes, at, flags });
                }
                Event::Error(tuple) => {
                    let quoted = Plain::of(tuple, 0).written();
                    table.push(&error_about(9, tuple.src, &quoted, 28));
                    related += u64::from(oracle.open.contains_key(&tuple));
                }
                Event::End(tuple) => {
                    table.function.set_time(table.now);
                    table.end_of(tuple);
                    oracle.end(&tuple);
                }
                Event::Time(more) => table.now += more,
            }
            prop_assert_eq!(table.function.totals().open as usize, oracle.open.len());
        }
        table.end_all();
        let open: Vec<Tuple> = oracle.open.keys().copied().collect();
        open.iter().for_each(|tuple| oracle.end(tuple));
        let records: Vec<Record> = std::iter::from_fn(|| table.function.take()).collect();
        let read: HashMap<_, _> =
            sums(&records).into_iter().map(|(tuple, paths)| (tuple, in_ms(paths))).collect();
        let wanted: HashMap<_, _> =
            oracle.sums.into_iter().map(|(tuple, paths)| (tuple, in_ms(paths))).collect();
        prop_assert_eq!(read, wanted);
        let last = records.iter().filter(|record| record.ended.is_some()).count();
        prop_assert_eq!(last, oracle.ended);
        prop_assert_eq!(table.function.totals().related, related);
        let active = records.iter().any(|record| record.ended.is_none());
        prop_assert!(active_s > 0 || !active);
    }
}

#[test]
fn the_state_is_forty_bytes() {
    assert_eq!(size_of::<Counters>(), 40);
}

fn udp(src: u32, port: u16) -> Vec<u8> {
    let tuple = FiveTuple { src, dst: 1, src_port: port, dst_port: 53, protocol: 17 };
    Plain::first(tuple).written()
}

#[test]
fn what_has_no_room_is_counted() {
    let mut table = Table::new(Ledger::new(SessionDef::connection(), 0, 2, 1));
    for port in 0..3 {
        table.push(&udp(5, port));
    }
    assert_eq!(table.function.totals().unrecorded, 1);
    table.end_all();
    assert_eq!((table.function.totals().lost, table.function.waiting()), (1, 1));
    // Room is used again.
    table.push(&udp(5, 9));
    assert_eq!(table.function.totals().unrecorded, 1);
}

#[test]
fn a_reset_session_was_closed_and_not_idle() {
    let mut table = Table::new(Ledger::new(SessionDef::connection(), 0, 9, 9));
    let tuple = FiveTuple { src: 1, dst: 2, src_port: 3, dst_port: 4, protocol: 6 };
    table.push(&Plain::first(tuple).written());
    table.push(&Plain::of(tuple.reversed(), 0x14).written());
    table.push(&udp(5, 5));
    table.end_all();
    let mut ends: Vec<_> = (0..2)
        .map(|_| table.function.take().unwrap())
        .map(|r| (r.endpoints.protocol, r.ended))
        .collect();
    ends.sort_by_key(|(protocol, _)| *protocol);
    assert_eq!(ends, [(6, Some(Ended::Closed)), (17, Some(Ended::TimedOut))]);
}

#[test]
fn padding_is_not_counted() {
    let mut table = Table::new(Ledger::new(SessionDef::connection(), 0, 1, 1));
    let mut padded = udp(1, 1);
    let len = padded.len() as u64;
    padded.extend([0; 14]);
    table.push(&padded);
    table.end_all();
    assert_eq!(table.function.take().unwrap().paths[0].bytes, len);
}

#[test]
fn records_name_the_fields_of_the_session() {
    let session = SessionDef::parse("pair").unwrap();
    let packet = marked(&udp(0x0a00_0001, 7));
    let endpoints = Endpoints::of(&packet, thruway_element::Direction::Reply, &session).unwrap();
    assert_eq!(
        (endpoints.dst, endpoints.src_port, endpoints.protocol),
        ([10, 0, 0, 1].into(), 0, 0)
    );
    let direction = DirectionCounts {
        packets: 2,
        bytes: 99,
        first: 1_500_000_000,
        last: 61_002_999_999,
        flags: 18,
    };
    let mut line = String::new();
    Record { endpoints, paths: [direction, DirectionCounts::default()], ended: None }
        .write_csv(&mut line);
    assert_eq!(line, "0.0.0.1,10.0.0.1,0,0,0,1.500,61.002,2,99,18,,,0,0,0,active\n");
    assert_eq!(line.matches(',').count(), record::CSV_HEADER.matches(',').count());
}

#[test]
fn arguments_are_checked() {
    let refused = |texts: &[&str]| {
        Rig::new(&ENTRY, texts, 1).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    assert!(refused(&["SESSION nothing"]).contains("SESSION"));
    assert!(refused(&["ACTIVE 100000"]).contains("32767"));
    assert!(refused(&["FORMAT xml"]).contains("neither csv nor ipfix"));
    assert!(refused(&["COLLECTOR nowhere"]).contains("no address with a port"));
    assert!(refused(&["RECORDS_MAX 0"]).contains("from 1 to"));
    let missing = "/nonexistent/directory/file";
    assert!(refused(&[missing]).contains(missing));
    assert_eq!(refused(&[]), "");
}

#[test]
fn a_collector_gets_messages() {
    let collector = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let to = collector.local_addr().unwrap();
    let wanted = Wanted { path: None, format: Format::Csv, collector: Some(to), domain: 3 };
    let mut sink = Sink::default();
    sink.open(&wanted).unwrap();
    let endpoints =
        Endpoints { src: [1; 4].into(), dst: [2; 4].into(), src_port: 3, dst_port: 4, protocol: 6 };
    let record = Record { endpoints, paths: [DirectionCounts::default(); 2], ended: None };
    let outcome = sink.write(&record, 0);
    assert_eq!((outcome.lost, sink.flush(0).lost), (0, 0));
    let mut message = [0; 2000];
    let len = collector.recv(&mut message).unwrap();
    assert_eq!((message[1], usize::from(message[3]) | usize::from(message[2]) << 8), (10, len));
}

#[test]
fn a_new_configuration_goes_on_counting() {
    let ledger = |session: &str| Ledger::new(SessionDef::parse(session).unwrap(), 0, 9, 9);
    let mut table = Table::new(ledger("connection"));
    table.push(&udp(5, 1));
    let mut next = ledger("connection");
    next.take_over(table.function.hand_over());
    assert_eq!((table.function.totals().open, next.totals().open), (0, 1));
    table.function = next;
    table.push(&udp(5, 1));
    table.end_all();
    assert_eq!(table.function.take().unwrap().paths[0].packets, 2);
    // Sessions of another definition do not go over.
    table.push(&udp(5, 1));
    let mut other = ledger("pair");
    other.take_over(table.function.hand_over());
    assert_eq!(other.totals().open, 0);
}
