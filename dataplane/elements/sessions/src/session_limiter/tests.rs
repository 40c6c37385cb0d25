//! The limiter's buckets are tested in `pace`; here, their assignment to sessions.

use thruway_wire::flow::FiveTuple;

use super::*;
use crate::alone::{Table, Tuple, marked};
use crate::plain::Plain;
use thruway_elements_rig::Rig;

const SECOND: i64 = 1_000_000_000;

fn udp(port: u16) -> Tuple {
    FiveTuple { src: 1, dst: 2, src_port: port, dst_port: 53, protocol: 17 }
}

fn limiter(rate: u64, burst: u64, by_bytes: bool) -> Limiter {
    let pace = checked_pace(rate, burst, by_bytes).unwrap();
    let shared = Arc::new(Credit::new(pace.full(0)));
    Limiter { pace, by_bytes, shared, ahead: 0, open: 0, now: 0 }
}

/// How many of so many packets pass.
fn passed(table: &mut Table<Limiter>, tuple: Tuple, payload: usize, count: usize) -> usize {
    let bytes = Plain { payload: vec![0; payload], ..Plain::first(tuple) }.written();
    (0..count).filter(|_| table.push(&bytes).0 == Verdict::Pass).count()
}

#[test]
fn every_session_has_its_own_rate_and_both_directions_share_it() {
    let mut table = Table::new(limiter(2, 4, false));
    assert_eq!(passed(&mut table, udp(1), 0, 9), 4);
    assert_eq!(passed(&mut table, udp(2), 0, 3), 3);
    assert_eq!(passed(&mut table, udp(2).reversed(), 0, 3), 1);
    table.now += SECOND;
    assert_eq!(passed(&mut table, udp(1), 0, 9), 2);
    assert_eq!(table.function.open, 2);
    table.end_all();
    assert_eq!(table.function.open, 0);
}

#[test]
fn bytes_are_those_of_the_ip_packet() {
    // 28 bytes of headers and 972 of payload: three packets in 3,036 bytes.
    let mut table = Table::new(limiter(1000, 3036, true));
    assert_eq!(passed(&mut table, udp(1), 972, 9), 3);
    // 36 bytes are left, for one small packet.
    assert_eq!(passed(&mut table, udp(1), 8, 9), 1);
    table.now += SECOND;
    assert_eq!(passed(&mut table, udp(1), 972, 9), 1);
}

#[test]
fn packets_without_a_session_share_one_rate() {
    let mut limiter = limiter(1, 2, false);
    let mut over = |port| {
        let mut packet = marked(&Plain::first(udp(port)).written());
        limiter.without(&mut packet) != Verdict::Pass
    };
    assert_eq!([over(1), over(2), over(3)], [false, false, true]);
    limiter.now += SECOND;
    let verdict = limiter.without(&mut marked(&Plain::first(udp(1)).written()));
    assert_eq!(verdict, Verdict::Pass);
}

#[test]
fn arguments_and_handlers() {
    let refused = |texts: &[&str]| {
        Rig::new(&ENTRY, texts, 1).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    assert!(refused(&[]).contains("RATE"));
    assert!(refused(&["RATE 1", "BANDWIDTH 1"]).contains("one of them"));
    assert!(refused(&["RATE 0"]).contains("at least 1"));
    assert!(refused(&["BANDWIDTH 1Mbps", "BURST 100"]).contains("full frame"));
    assert!(refused(&["RATE 1", "SESSION src src"]).contains("SESSION"));
    let mut rig = Rig::new(&ENTRY, &["BANDWIDTH 8Mbps"], 1).unwrap();
    assert_eq!(rig.read("rate", "").unwrap(), "1000000");
    assert_eq!(rig.read("burst", "").unwrap(), "100000");
    rig.write("rate", "16Mbps").unwrap();
    rig.write("burst", "2000").unwrap();
    assert!(rig.write("burst", "200").is_err());
    assert_eq!(
        (rig.read("rate", ""), rig.read("burst", "")),
        (Ok("2000000".into()), Ok("2000".into()))
    );
}
