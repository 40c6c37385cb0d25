use super::*;
use proptest::prelude::*;

const MS: i64 = 1_000_000;
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn limits() -> Limits {
    Limits {
        packets: 10,
        entries: 4,
        entry_packets: 0,
        slim_factor: 2,
        timeout: 300_000 * MS,
        poll_timeout: 60_000 * MS,
        query_interval: 100 * MS,
        query_interval_late: 2_000 * MS,
    }
}

fn packet(n: u8) -> Packet {
    Packet::new(&[n]).unwrap()
}

fn bytes(batch: &Batch) -> Vec<u8> {
    batch.iter().map(|packet| packet.data()[0]).collect()
}

#[test]
fn packets_wait_in_order_and_queries_are_spaced() {
    let mut table = Table::new(limits());
    let (mut ready, mut lost) = (Batch::new(), Batch::new());
    assert!(table.wait(1, packet(1), 0, &mut lost));
    assert!(!table.wait(1, packet(2), 99 * MS, &mut lost));
    assert!(table.wait(1, packet(3), 100 * MS, &mut lost));
    assert!(table.wait(2, packet(9), 100 * MS, &mut lost));
    assert_eq!(table.look_up(1, 100 * MS), None);
    table.insert(1, MAC, 150 * MS, (&mut ready, &mut lost));
    assert_eq!((bytes(&ready), bytes(&lost)), (vec![1, 2, 3], vec![]));
    assert_eq!((table.len(), table.packets()), (2, 1));
    assert_eq!(table.look_up(1, 150 * MS).unwrap().mac, MAC);
}

#[test]
fn an_address_that_does_not_answer_is_asked_for_by_broadcast() {
    let mut table = Table::new(limits());
    let (mut ready, mut lost) = (Batch::new(), Batch::new());
    table.insert(1, MAC, 0, (&mut ready, &mut lost));
    let asked = |table: &mut Table<u32>, n: i64| {
        let known = table.look_up(1, 60_000 * MS + n * 100 * MS).unwrap();
        assert!(known.poll, "query {n}");
        known.to_all
    };
    let to_all: Vec<bool> = (0..6).map(|n| asked(&mut table, n)).collect();
    assert_eq!(to_all, [false, false, false, true, true, true]);
    // An answer begins it anew.
    table.insert(1, MAC, 70_000 * MS, (&mut ready, &mut lost));
    let later = table.look_up(1, 130_000 * MS).unwrap();
    assert!(later.poll && !later.to_all);
}

#[test]
fn after_a_lost_link_every_address_is_asked_for_at_once() {
    let mut table = Table::new(limits());
    let (mut ready, mut lost) = (Batch::new(), Batch::new());
    table.insert(1, MAC, 0, (&mut ready, &mut lost));
    assert!(table.wait(2, packet(2), 10 * MS, &mut lost));
    table.doubt();
    assert!(table.take_forgot());
    assert_eq!(table.look_up(1, 11 * MS), None);
    assert!(table.wait(1, packet(1), 11 * MS, &mut lost), "asked for at once");
    assert!(table.wait(2, packet(3), 11 * MS, &mut lost), "and so is what was asked for before");
    let other = MacAddr([2, 0, 0, 0, 0, 2]);
    table.insert(1, other, 12 * MS, (&mut ready, &mut lost));
    assert_eq!((bytes(&ready), table.look_up(1, 12 * MS).unwrap().mac), (vec![1], other));
    assert!(lost.is_empty() && table.packets() == 2);
    // Entries that live for ever are the user's.
    let mut table = Table::new(Limits { timeout: 0, ..limits() });
    table.insert(1, MAC, 0, (&mut ready, &mut lost));
    table.doubt();
    assert!(table.look_up(1, 1).is_some());
}

#[test]
fn after_ten_queries_in_vain_it_asks_seldom() {
    let mut table = Table::new(limits());
    let mut lost = Batch::new();
    let queries = (0..100).filter(|i| table.wait(1, packet(0), i * 100 * MS, &mut lost)).count();
    // 10 in the first second, then one in two seconds.
    assert_eq!(queries, 14);
}

#[test]
fn known_entries_are_polled_and_expire() {
    let mut table = Table::new(limits());
    let (mut ready, mut lost) = (Batch::new(), Batch::new());
    table.insert(1, MAC, 0, (&mut ready, &mut lost));
    let known = table.look_up(1, 0).unwrap();
    assert_eq!((known.poll, known.until), (false, 60_000 * MS));
    assert!(table.look_up(1, 60_000 * MS).unwrap().poll);
    let known = table.look_up(1, 60_001 * MS).unwrap();
    assert_eq!((known.poll, known.until), (false, 60_100 * MS));
    assert!(table.look_up(1, 300_000 * MS).is_some());
    assert!(table.look_up(1, 300_001 * MS).is_none());
    assert!(table.wait(1, packet(0), 300_101 * MS, &mut lost));
    assert!(table.look_up(1, 300_001 * MS).is_none());
}

#[test]
fn too_many_packets_lose_the_older_half() {
    let mut table = Table::new(limits());
    let mut lost = Batch::new();
    for n in 0..100 {
        table.wait(1, packet(n), 0, &mut lost);
    }
    assert_eq!((lost.len(), table.packets()), (90, 10));
    assert_eq!(bytes(&lost), (0..90).collect::<Vec<u8>>());
}

#[test]
fn too_many_packets_for_one_address_are_refused() {
    let mut table = Table::new(Limits { entry_packets: 3, ..limits() });
    let mut lost = Batch::new();
    for n in 0..5 {
        table.wait(1, packet(n), 0, &mut lost);
    }
    assert_eq!((bytes(&lost), table.packets()), (vec![3, 4], 3));
}

#[test]
fn entries_are_bounded_and_the_oldest_goes() {
    let mut table = Table::new(limits());
    let mut lost = Batch::new();
    for key in 0..6 {
        table.wait(key, packet(key as u8), i64::from(key), &mut lost);
    }
    let keys: Vec<i32> = table.rows(6).map(|row| row.key).collect();
    assert_eq!((keys, bytes(&lost)), (vec![2, 3, 4, 5], vec![0, 1]));
}

#[test]
fn a_removed_entry_voids_copies() {
    let mut table = Table::new(limits());
    let (mut ready, mut lost) = (Batch::new(), Batch::new());
    table.insert(1, MAC, 0, (&mut ready, &mut lost));
    assert!(table.take_forgot());
    table.insert(1, MAC, 1, (&mut ready, &mut lost));
    assert!(!table.take_forgot());
    table.insert(1, MacAddr::BROADCAST, 1, (&mut ready, &mut lost));
    assert!(table.take_forgot() && table.look_up(1, 1).is_none());
}

#[test]
fn a_table_can_be_adopted_with_what_waits() {
    let (mut ready, mut lost) = (Batch::new(), Batch::new());
    let mut old = Table::new(Limits { packets: 5, ..limits() });
    old.wait(1, packet(1), 0, &mut lost);
    old.wait(1, packet(2), 0, &mut lost);
    let mut new = Table::new(limits());
    new.adopt(old);
    new.adopt(Table::new(limits()));
    assert_eq!((new.len(), new.packets()), (1, 2));
    new.insert(1, MAC, 1, (&mut ready, &mut lost));
    assert_eq!((bytes(&ready), bytes(&lost)), (vec![1, 2], vec![]));
}

#[derive(Debug, Clone)]
enum Op {
    Wait(u8),
    Insert(u8),
    LookUp(u8),
    Slim,
    Clear,
}

fn op() -> impl Strategy<Value = (Op, i64)> {
    let key = 0u8..8;
    let op = prop_oneof![
        8 => key.clone().prop_map(Op::Wait),
        3 => key.clone().prop_map(Op::Insert),
        3 => key.prop_map(Op::LookUp),
        1 => Just(Op::Slim),
        1 => Just(Op::Clear),
    ];
    (op, 0..50_000 * MS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// No packet is lost or doubled; the list of ages and the map agree; the bounds hold.
    #[test]
    fn every_packet_is_accounted_for(ops in prop::collection::vec(op(), 1..80)) {
        let mut table = Table::new(limits());
        let (mut ready, mut lost) = (Batch::new(), Batch::new());
        let (mut now, mut put) = (0, 0);
        for (op, later) in ops {
            now += later;
            match op {
                Op::Wait(key) => {
                    if table.look_up(key, now).is_none() {
                        table.wait(key, packet(key), now, &mut lost);
                        put += 1;
                    }
                }
                Op::Insert(key) => table.insert(key, MAC, now, (&mut ready, &mut lost)),
                Op::LookUp(key) => {
                    let row = table.rows(now).find(|row| row.key == key);
                    let known = table.look_up(key, now).map(|known| known.mac);
                    prop_assert_eq!(known, row.filter(|row| row.known).map(|row| row.mac));
                }
                Op::Slim => table.slim(now, &mut lost),
                Op::Clear => table.clear(&mut lost),
            }
            let waiting: usize = table.entries.iter().map(|entry| entry.waiting.len()).sum();
            prop_assert_eq!(waiting, table.packets());
            prop_assert_eq!(put, waiting + ready.len() + lost.len());
            prop_assert!(waiting <= 10 && table.len() <= 4);
            let ages: Vec<i64> = table.rows(now).map(|row| row.age).collect();
            prop_assert_eq!(ages.len(), table.len());
            prop_assert!(ages.is_sorted_by(|a, b| a >= b));
        }
    }
}
