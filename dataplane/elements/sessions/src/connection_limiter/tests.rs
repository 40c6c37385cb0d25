//! The limiter against a plain count of every source's open connections.

use std::collections::HashMap;

use proptest::prelude::*;
use thruway_element::{Addresses, Env, Shared};
use thruway_wire::flow::FiveTuple;

use super::*;
use crate::alone::{Table, Tuple, marked};
use crate::plain::Plain;
use thruway_elements_rig::Rig;

const SECOND: i64 = 1_000_000_000;

fn limiter(most: Option<u32>, rate: Option<(u64, u64)>, sources_max: u32) -> Limiter {
    let pace = rate.map(|(rate, burst)| Pace::new(rate, burst).unwrap());
    let sources = Sources::new(most, pace, sources_max, [1, 2]);
    Limiter { sources, prefixes: [128, 128], open: 0, now: 0 }
}

fn connection(source: u32, port: u16) -> Tuple {
    FiveTuple { src: 10 << 24 | source, dst: 2, src_port: port, dst_port: 80, protocol: 6 }
}

fn push(table: &mut Table<Limiter>, tuple: Tuple) -> Verdict {
    table.push(&Plain::first(tuple).written()).0
}

#[derive(Clone, Debug)]
enum Event {
    Packet(Tuple),
    Reply(Tuple),
    End(Tuple),
}

fn event() -> impl Strategy<Value = Event> {
    let tuple = (0u32..5, 0u16..6).prop_map(|(source, port)| connection(source, port));
    prop_oneof![
        5 => tuple.clone().prop_map(Event::Packet),
        2 => tuple.clone().prop_map(Event::Reply),
        3 => tuple.prop_map(Event::End),
    ]
}

proptest! {
    #[test]
    fn counts_are_exact(
        most in 1u32..5, sources_max in 1u32..7,
        events in proptest::collection::vec(event(), 1..300),
    ) {
        let mut table = Table::new(limiter(Some(most), None, sources_max));
        let mut open: HashMap<u32, Vec<Tuple>> = HashMap::new();
        for event in events {
            match event {
                Event::Packet(tuple) => {
                    let known = open.len();
                    let theirs = open.entry(tuple.src).or_default();
                    let is_new_source = theirs.is_empty();
                    let wanted = if theirs.contains(&tuple) {
                        Verdict::Pass
                    } else if theirs.len() >= most as usize {
                        Verdict::drop(Refused::Open)
                    } else if is_new_source && known >= sources_max as usize {
                        Verdict::drop(Refused::Sources)
                    } else {
                        theirs.push(tuple);
                        Verdict::Pass
                    };
                    prop_assert_eq!(push(&mut table, tuple), wanted);
                    open.retain(|_, theirs| !theirs.is_empty());
                }
                Event::Reply(tuple) => {
                    if open.get(&tuple.src).is_some_and(|theirs| theirs.contains(&tuple)) {
                        prop_assert_eq!(push(&mut table, tuple.reversed()), Verdict::Pass);
                    }
                }
                Event::End(tuple) => {
                    table.end_of(tuple);
                    if let Some(theirs) = open.get_mut(&tuple.src) {
                        theirs.retain(|other| *other != tuple);
                    }
                    open.retain(|_, theirs| !theirs.is_empty());
                }
            }
            let all: usize = open.values().map(Vec::len).sum();
            prop_assert_eq!(table.function.open as usize, all);
            prop_assert_eq!(table.function.sources.len() as usize, open.len());
        }
        let busiest = table.function.sources.busiest(9);
        prop_assert_eq!(busiest.len(), open.len());
        for ([_, _, _, addr], count) in busiest {
            prop_assert_eq!(count as usize, open[&addr].len());
        }
        table.end_all();
        prop_assert_eq!((table.function.open, table.function.sources.len()), (0, 0));
    }
}

#[test]
fn connections_come_no_faster_than_the_rate() {
    let mut table = Table::new(limiter(None, Some((2, 3)), 100));
    let mut opened = |now: i64, ports: std::ops::Range<u16>| {
        (table.now, table.function.now) = (now, now);
        let passed: Vec<u16> =
            ports.filter(|port| push(&mut table, connection(1, *port)) == Verdict::Pass).collect();
        for port in &passed {
            table.end_of(connection(1, *port));
        }
        passed.len()
    };
    // Those that ended at once are remembered all the same.
    assert_eq!([opened(0, 0..9), opened(SECOND / 2, 9..19), opened(SECOND, 19..29)], [3, 1, 1]);
    assert_eq!(opened(10 * SECOND, 29..39), 3);
    assert_eq!(table.function.sources.len(), 1);
    // Forgotten once another comes and it could open its burst again.
    (table.now, table.function.now) = (20 * SECOND, 20 * SECOND);
    push(&mut table, connection(2, 1));
    assert_eq!(table.function.sources.len(), 1);
}

#[test]
fn networks_count_as_one_source() {
    let mut limiter = limiter(Some(1), None, 9);
    limiter.prefixes = [96 + 24, 64];
    let source = |text: &str| limiter.source(text.parse().unwrap());
    assert_eq!(source("10.1.2.3"), source("10.1.2.77"));
    assert_ne!(source("10.1.2.3"), source("10.1.3.3"));
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:0:0:1"));
    assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    assert_eq!(written(source("10.1.2.3")), "10.1.2.0");
    assert_eq!(written(source("2001:db8::7")), "2001:db8::");
    limiter.prefixes = [96, 0];
    assert_eq!(limiter.source("1.2.3.4".parse().unwrap()), limiter.source([9; 4].into()));
}

#[test]
fn the_opener_sent_the_first_packet() {
    let packet = marked(&Plain::first(connection(7, 7)).written());
    let (first, other) = ([10, 0, 0, 7].into(), [0, 0, 0, 2].into());
    assert_eq!(opener(&packet, Direction::Forward), Some(first));
    assert_eq!(opener(&packet, Direction::Reply), Some(other));
    assert_eq!(opener(&marked(&[0x60; 39]), Direction::Reply), None);
}

#[test]
fn arguments_and_handlers() {
    let refused = |texts: &[&str]| {
        Rig::new(&ENTRY, texts, 1).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    assert!(refused(&[]).contains("give MAX"));
    assert!(refused(&["MAX 0"]).contains("at least 1"));
    assert!(refused(&["MAX 1", "BURST 3"]).contains("without RATE"));
    assert!(refused(&["MAX 1", "PREFIX 33"]).contains("from 0 to 32"));
    assert!(refused(&["RATE 0"]).contains("RATE"));
    assert!(refused(&["MAX 1", "SOURCES_MAX 0"]).contains("SOURCES_MAX"));
    let mut rig = Rig::new(&ENTRY, &["MAX 3"], 1).unwrap();
    rig.write("max", "7").unwrap();
    assert_eq!(rig.read("max", "").unwrap(), "7");
    assert_eq!(rig.read("busiest", "3").unwrap(), "");
    assert!(rig.read("busiest", "x").is_err() && rig.write("max", "-1").is_err());
}

#[test]
fn a_new_configuration_goes_on_counting() {
    let built = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let (addresses, shared) = (Addresses::default(), Shared::default());
        let env = Env::alone("tested", ENTRY.spec.name, &addresses, &shared);
        let env = Env { inputs: 1, outputs: 1, ..env };
        (ENTRY.build)(&Args::sort(&ENTRY.spec, &texts, &env).unwrap()).unwrap()
    };
    let mut old = limiter(Some(5), None, 9);
    old.sources.open([0, 0, 0, 7], 0).unwrap();
    old.open = 1;
    let mut new = built(&["MAX 3"]);
    let new = ENTRY.hot_swap_mut(&mut *new).unwrap();
    new.take_over(Box::new(Kept { sources: old.sources, open: old.open }));
    let kept = new.hand_over().unwrap().downcast::<Kept>().ok().unwrap();
    assert_eq!((kept.open, kept.sources.len(), kept.sources.most), (1, 1, Some(3)));
    assert!(new.hand_over().unwrap().downcast::<Kept>().ok().unwrap().sources.len() == 0);
}
