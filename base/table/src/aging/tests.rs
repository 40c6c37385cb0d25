//! Against a plain map.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// The entries that a table should have, and when they were seen last.
#[derive(Default)]
struct Map(HashMap<u64, ([u64; 2], i64, bool)>);

#[derive(Debug, Clone)]
enum Act {
    Learn(u64, [u64; 2]),
    Find(u64),
    Fix(u64, [u64; 2]),
    Remove(u64),
    ForgetLearnt,
}

fn act() -> impl Strategy<Value = Act> {
    // Few keys, fewer than a bucket has room for: all find a place, whatever the hash.
    let key = 1u64..=5;
    let value = (0..(1u64 << VALUE_BITS), any::<u64>()).prop_map(|(first, second)| [first, second]);
    prop_oneof![
        6 => (key.clone(), value.clone()).prop_map(|(key, value)| Act::Learn(key, value)),
        // The same again, so that entries are refreshed.
        4 => key.clone().prop_map(|key| Act::Learn(key, [key, key])),
        6 => key.clone().prop_map(Act::Find),
        1 => (key.clone(), value).prop_map(|(key, value)| Act::Fix(key, value)),
        1 => key.prop_map(Act::Remove),
        1 => Just(Act::ForgetLearnt),
    ]
}

const TIMEOUT: i64 = 50;

impl Map {
    fn find(&self, key: u64, now: i64) -> Option<[u64; 2]> {
        let entry = self.0.get(&key).filter(|(_, at, fixed)| *fixed || now < at + TIMEOUT);
        entry.map(|(value, ..)| *value)
    }

    fn is_fixed(&self, key: u64) -> bool {
        self.0.get(&key).is_some_and(|(.., fixed)| *fixed)
    }
}

proptest! {
    /// Times are ticks, and the timeout so short that every sight is noted.
    #[test]
    fn as_a_map(acts in prop::collection::vec((act(), 0i64..20), 1..80), start in 0i64..1 << 42) {
        let table = AgingTable::<2>::new(2, TIMEOUT * TICK_NS);
        let mut map = Map::default();
        let mut at = start;
        for (act, wait) in acts {
            at += wait;
            let now = at * TICK_NS + 5;
            match act {
                Act::Learn(key, value) => {
                    let learnt = table.learn(key, value, now);
                    prop_assert_eq!(learnt == Learnt::Fixed, map.is_fixed(key));
                    prop_assert!(learnt != Learnt::Full && learnt != Learnt::Busy);
                    if !map.is_fixed(key) {
                        map.0.insert(key, (value, at, false));
                    }
                }
                Act::Find(key) => prop_assert_eq!(table.find(key, now), map.find(key, at)),
                Act::Fix(key, value) => {
                    table.fix(key, value, now).unwrap();
                    map.0.insert(key, (value, at, true));
                }
                Act::Remove(key) => {
                    prop_assert_eq!(table.remove(key), map.0.remove(&key).is_some());
                }
                Act::ForgetLearnt => {
                    table.retain(|entry| entry.fixed);
                    map.0.retain(|_, (.., fixed)| *fixed);
                }
            }
            let entries = table.entries(now);
            let listed: Vec<_> = entries.iter().map(|one| (one.key, one.value)).collect();
            let wanted: Vec<_> =
                (1..=5).filter_map(|key| Some((key, map.find(key, at)?))).collect();
            prop_assert_eq!(listed, wanted);
        }
    }

    /// What is seen again and again stays, although not each sight is written.
    #[test]
    fn a_long_timeout_is_kept_to_within_a_256th(waits in prop::collection::vec(1i64..990, 1..40)) {
        let table = AgingTable::<1>::new(2, 1000 * TICK_NS);
        let mut now = 0;
        for wait in waits {
            table.learn(9, [1], now);
            now += wait * TICK_NS;
            prop_assert_eq!(table.find(9, now), Some([1]));
        }
        prop_assert_eq!(table.find(9, now + 1000 * TICK_NS), None);
    }
}

#[test]
fn old_entries_make_room_and_others_do_not() {
    // One bucket of seven.
    let table = AgingTable::<1>::new(1, 10 * TICK_NS);
    for key in 1..=7 {
        assert_eq!(table.learn(key, [key], key as i64 * TICK_NS), Learnt::Stored);
    }
    assert_eq!(table.learn(8, [8], 10 * TICK_NS), Learnt::Full);
    assert_eq!(table.fix(9, [9], 10 * TICK_NS), Err(NO_ROOM_MESSAGE));
    assert_eq!(table.find(1, 10 * TICK_NS), Some([1]));
    assert_eq!(table.learn(8, [8], 11 * TICK_NS), Learnt::Stored);
    assert_eq!(table.find(1, 11 * TICK_NS), None);
    assert_eq!(table.find(2, 11 * TICK_NS), Some([2]));
    assert_eq!(table.entries(11 * TICK_NS).len(), 7);
}

#[test]
fn a_clock_that_is_set_back_forgets_nothing() {
    let table = AgingTable::<1>::new(1, 10 * TICK_NS);
    table.learn(1, [1], 1000 * TICK_NS);
    assert_eq!(table.find(1, 5 * TICK_NS), Some([1]));
    table.learn(1, [1], 5 * TICK_NS);
    assert_eq!(table.find(1, 1009 * TICK_NS), Some([1]));
}

/// Nearly all of as many random keys as there is room for find a place.
#[test]
fn room_is_as_promised() {
    let table = AgingTable::<1>::new(1 << 12, i64::MAX);
    let other = AgingTable::<2>::new(1 << 12, i64::MAX);
    let full = (1..=1u64 << 12)
        .filter(|key| {
            let one = table.learn(key * 0x0002_0000_0001, [1], 0) == Learnt::Full;
            one | (other.learn(key << 32 | key, [1, 1], 0) == Learnt::Full)
        })
        .count();
    // One in a thousand is expected; twelve times that is a broken hash.
    assert!(full < 50, "{full} of 4096 keys found no room");
}

/// Threads that learn and look up keys of one bucket: a value that is found belongs to its key.
#[test]
fn threads_never_mix_entries() {
    let table = AgingTable::<2>::new(1, TICK_NS);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let table = &table;
            scope.spawn(move || {
                for round in 0..if cfg!(miri) { 200 } else { 20_000 } {
                    let key = 1 + (round * 7 + thread) % 11;
                    let now = round as i64 * TICK_NS / 3;
                    table.learn(key, [key, key << 40], now);
                    for other in 1..12 {
                        if let Some(value) = table.find(other, now) {
                            assert_eq!(value, [other, other << 40]);
                        }
                    }
                }
            });
        }
    });
}
