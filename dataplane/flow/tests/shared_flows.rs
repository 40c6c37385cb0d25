//! The rendezvous against a map, and under threads that do not wait for each other.
#![cfg(not(loom))]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use thruway_flow::shared_flows::{
    AlsoError, KEY_WORDS, Key, Published, RecordId, SharedFlows, SharedFlowsError,
};
use thruway_random::Random;

const RECORDS: u32 = 4;

/// Keys that differ in one word: the first, the last, or one between.
fn key(number: u32) -> Key {
    let mut key = [0; KEY_WORDS];
    key[[0, 3, KEY_WORDS - 1][number as usize % 3]] = 1 + number;
    key
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Publish { key: u32, word: u64, now: u32 },
    Find { key: u32 },
    Also { record: usize, key: u32 },
    Touch { record: usize, now: u32 },
    Set { record: usize, bits: u32 },
    Leave { record: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (keys, record) = (0..9u32, any::<usize>());
    prop_oneof![
        3 => (keys.clone(), any::<u64>(), any::<u32>())
            .prop_map(|(key, word, now)| Step::Publish { key, word, now }),
        2 => keys.clone().prop_map(|key| Step::Find { key }),
        1 => (record, keys).prop_map(|(record, key)| Step::Also { record, key }),
        1 => (record, any::<u32>()).prop_map(|(record, now)| Step::Touch { record, now }),
        1 => (record, any::<u32>()).prop_map(|(record, bits)| Step::Set { record, bits }),
        4 => record.prop_map(|record| Step::Leave { record }),
    ]
}

/// What a record is to be.
struct Connection {
    keys: Vec<u32>,
    halves: usize,
    word: u64,
    seen: u32,
    state: u32,
}

/// What a rendezvous is to be.
#[derive(Default)]
struct Oracle(HashMap<RecordId, Connection>);

impl Oracle {
    fn holder(&self, key: u32) -> Option<RecordId> {
        let mut holders = self.0.iter().filter(|(_, connection)| connection.keys.contains(&key));
        holders.next().map(|(record, _)| *record)
    }

    /// Some live record.
    fn pick(&self, choice: usize) -> Option<RecordId> {
        let mut records: Vec<_> = self.0.keys().copied().collect();
        records.sort_by_key(|record| record.index());
        records.get(choice % records.len().max(1)).copied()
    }

    fn publish(&mut self, real: &SharedFlows, number: u32, word: u64, now: u32) {
        let published = real.publish(&key(number), &[word, !word], now);
        match self.holder(number) {
            Some(record) => {
                assert_eq!(published, Published::Theirs(record));
                self.0.get_mut(&record).expect("live").halves += 1;
            }
            None if self.0.len() == RECORDS as usize => assert_eq!(published, Published::Full),
            None => {
                let Published::Mine(record) = published else { panic!("{published:?}") };
                let keys = vec![number];
                let new = Connection { keys, halves: 1, word, seen: now, state: 0 };
                assert!(self.0.insert(record, new).is_none(), "a live record was given out");
            }
        }
    }

    fn also(&mut self, real: &SharedFlows, record: RecordId, number: u32) {
        let holder = self.holder(number);
        let connection = self.0.get_mut(&record).expect("live");
        let expected = match holder {
            _ if connection.keys.len() == 2 => Err(AlsoError::Second),
            Some(holder) if holder != record => Err(AlsoError::Taken),
            Some(_) => Ok(()),
            None => {
                connection.keys.push(number);
                Ok(())
            }
        };
        assert_eq!(real.also(record, &key(number)), expected);
    }

    fn leave(&mut self, real: &SharedFlows, record: RecordId) {
        let connection = self.0.get_mut(&record).expect("live");
        connection.halves -= 1;
        assert_eq!(real.leave(record), connection.halves == 0);
        if connection.halves == 0 {
            self.0.remove(&record);
        }
    }

    fn apply(&mut self, real: &SharedFlows, step: Step) {
        let (Step::Also { record: choice, .. }
        | Step::Touch { record: choice, .. }
        | Step::Set { record: choice, .. }
        | Step::Leave { record: choice }) = step
        else {
            match step {
                Step::Publish { key, word, now } => self.publish(real, key, word, now),
                Step::Find { key: number } => {
                    let found = real.find(&key(number));
                    assert_eq!(found, self.holder(number));
                    found.iter().for_each(|it| self.0.get_mut(it).expect("live").halves += 1);
                }
                _ => unreachable!("handled below"),
            }
            return;
        };
        let Some(record) = self.pick(choice) else { return };
        let connection = self.0.get_mut(&record).expect("live");
        match step {
            Step::Touch { now, .. } => {
                real.touch(record, now);
                connection.seen = now;
            }
            Step::Set { bits, .. } => {
                assert_eq!(real.update_state(record, |state| state | bits), connection.state);
                connection.state |= bits;
            }
            Step::Also { key, .. } => self.also(real, record, key),
            _ => self.leave(real, record),
        }
    }

    fn compare(&self, real: &SharedFlows) {
        for (record, connection) in &self.0 {
            assert!(real.words(*record).eq([connection.word, !connection.word]));
            assert_eq!(real.last_seen(*record), connection.seen);
            assert_eq!(real.state(*record), connection.state);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn it_does_what_a_map_does(
        seed in any::<[u64; 2]>(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let real = SharedFlows::new(RECORDS, 2, seed).expect("memory");
        let mut oracle = Oracle::default();
        for step in steps {
            oracle.apply(&real, step);
            oracle.compare(&real);
        }
        while let Some(record) = oracle.pick(0) {
            oracle.leave(&real, record);
        }
        for number in 0..9 {
            prop_assert_eq!(real.find(&key(number)), None);
        }
    }
}

#[test]
fn sizes_at_their_ends() {
    let none = SharedFlows::new(0, 0, [0; 2]).expect("memory");
    assert_eq!(none.publish(&key(1), &[], 0), Published::Full);
    assert_eq!(none.find(&key(1)), None);
    let records = u32::MAX;
    let too_many = SharedFlowsError::TooMany { records };
    assert_eq!(SharedFlows::new(records, 0, [0; 2]).err(), Some(too_many));
    for words in [usize::MAX, usize::MAX / 8, 1 << 58] {
        let no_memory = SharedFlowsError::NoMemory { records: 100, words };
        assert_eq!(SharedFlows::new(100, words, [0; 2]).err(), Some(no_memory));
    }
}

/// Pages of memory that this process has touched.
fn resident_pages() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number")
}

#[test]
fn memory_costs_nothing_before_it_is_used() {
    let before = resident_pages();
    let shared_flows = SharedFlows::new(1_000_000, 4, [1, 2]).expect("memory");
    let new = resident_pages() - before;
    // Reserved are 169 MB, 41,000 pages of 4 KiB; other tests of this process touch some too.
    assert!(new < 8_000, "{new} pages");
    assert!(matches!(shared_flows.publish(&key(1), &[0; 4], 0), Published::Mine(_)));
}

const THREADS: u64 = 4;
const STRESS: Duration = Duration::from_millis(1500);
/// Fewer than connections that are tried at once, so that the table is often full.
const STRESS_RECORDS: u32 = 12;
const CONNECTIONS: u32 = 24;

/// A connection's two keys: what its two directions look like.
fn ends(connection: u32) -> [Key; 2] {
    [2 * connection, 2 * connection + 1].map(key)
}

/// The holders of each connection now, and their record: all who hold one at a time hold the same.
struct Ledger(Vec<Mutex<(usize, Option<RecordId>)>>);

impl Ledger {
    fn enter(&self, connection: u32, record: RecordId) {
        let mut line = self.0[connection as usize].lock().expect("no panic");
        assert!(line.0 == 0 || line.1 == Some(record), "two records of one connection");
        *line = (line.0 + 1, Some(record));
    }

    fn leave(&self, connection: u32) {
        self.0[connection as usize].lock().expect("no panic").0 -= 1;
    }
}

/// One thread: gets hold of connections from either end, and lets go of them.
fn stress(real: &SharedFlows, ledger: &Ledger, seed: u64) -> u64 {
    let (mut random, mut held, mut rounds) = (Random::from_seed(seed), Vec::new(), 0);
    let word = |connection: u32| [u64::from(connection), !u64::from(connection)];
    let end = Instant::now() + STRESS;
    while Instant::now() < end {
        for _ in 0..64 {
            rounds += 1;
            let connection = random.below(CONNECTIONS.into()) as u32;
            let [first, second] = ends(connection);
            let got = match random.below(4) {
                0 => real.find(&first),
                1 => real.find(&second),
                _ => match real.publish(&first, &word(connection), connection) {
                    Published::Theirs(record) => Some(record),
                    Published::Full => None,
                    Published::Mine(record) => {
                        // Another thread may have found it and set the state already.
                        assert!([0, connection + 1].contains(&real.state(record)));
                        let also = real.also(record, &second);
                        assert!(matches!(also, Ok(()) | Err(AlsoError::Full)), "{also:?}");
                        Some(record)
                    }
                },
            };
            if let Some(record) = got {
                ledger.enter(connection, record);
                assert!(real.words(record).eq(word(connection)));
                assert_eq!(real.last_seen(record), connection);
                real.update_state(record, |_| connection + 1);
                held.push((connection, record));
            }
            while held.len() > 8 || (!held.is_empty() && random.below(2) == 0) {
                let some = random.index(held.len());
                let (connection, record) = held.swap_remove(some);
                assert!(real.words(record).eq(word(connection)));
                assert_eq!(real.state(record), connection + 1);
                ledger.leave(connection);
                real.leave(record);
            }
        }
    }
    held.into_iter().for_each(|(connection, record)| {
        ledger.leave(connection);
        real.leave(record);
    });
    rounds
}

#[test]
fn threads_agree_on_every_connection() {
    let real = Arc::new(SharedFlows::new(STRESS_RECORDS, 2, [3, 4]).expect("memory"));
    let ledger = Arc::new(Ledger((0..CONNECTIONS).map(|_| Mutex::default()).collect()));
    let threads: Vec<_> = (1..=THREADS)
        .map(|seed| {
            let (real, ledger) = (real.clone(), ledger.clone());
            thread::spawn(move || stress(&real, &ledger, seed))
        })
        .collect();
    let rounds: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    assert!(rounds > 1_000, "only {rounds} rounds");
    for connection in 0..CONNECTIONS {
        assert_eq!(ends(connection).map(|key| real.find(&key)), [None; 2]);
    }
    // Each record is free, once.
    let again: Vec<_> =
        (0..STRESS_RECORDS).map(|n| real.publish(&key(1000 + n), &[0; 2], 0)).collect();
    assert!(again.iter().all(|published| matches!(published, Published::Mine(_))), "{again:?}");
    assert_eq!(real.publish(&key(2000), &[0; 2], 0), Published::Full);
}
