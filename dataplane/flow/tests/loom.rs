//! The rendezvous under loom: every interleaving, and what weak memory allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p thruway-flow --test loom`
#![cfg(loom)]

use std::sync::Arc;

use loom::thread;
use thruway_flow::manager::HandoffCounts;
use thruway_flow::shared_flows::{
    AlsoError, KEY_WORDS, Key, Published, RecordId, SharedFlows, SharedFlowsError,
};

/// A key that is different from others in each of its stored words, so that a half-written one
/// shows.
fn key(number: u32) -> Key {
    [number; KEY_WORDS]
}

/// The words that go with a key.
fn words(number: u32) -> [u64; 2] {
    [u64::from(number) << 8, u64::from(number) << 16]
}

fn shared_flows(records: u32) -> Result<Arc<SharedFlows>, SharedFlowsError> {
    SharedFlows::new(records, 2, [1, 2]).map(Arc::new)
}

fn publish(shared_flows: &SharedFlows, number: u32) -> Published {
    shared_flows.publish(&key(number), &words(number), number)
}

fn mine(published: Published) -> RecordId {
    match published {
        Published::Mine(record) => record,
        other => panic!("{other:?}"),
    }
}

/// What one holds under a key is whole, and of that key.
fn check(shared_flows: &SharedFlows, record: RecordId, number: u32) {
    assert!(shared_flows.words(record).eq(words(number)));
    assert_eq!(shared_flows.last_seen(record), number);
}

fn model(preemptions: Option<usize>, test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(test);
}

/// All records can be had again, and no more of them than there were.
fn all_are_free(shared_flows: &SharedFlows, records: u32) {
    for number in 0..records {
        mine(publish(shared_flows, 100 + number));
    }
    assert_eq!(publish(shared_flows, 200), Published::Full);
}

#[test]
fn both_directions_publish_at_once_and_one_record_wins() {
    model(None, || {
        let shared = shared_flows(2).expect("memory");
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let published = publish(&other, 7);
            if let Published::Mine(record) | Published::Theirs(record) = published {
                check(&other, record, 7);
            }
            published
        });
        let here = publish(&shared, 7);
        let there = thread.join().expect("no panic");
        let record = match (here, there) {
            (Published::Mine(a), Published::Theirs(b)) if a == b => a,
            (Published::Theirs(a), Published::Mine(b)) if a == b => a,
            other => panic!("{other:?}"),
        };
        check(&shared, record, 7);
        assert!(!shared.leave(record));
        assert!(shared.leave(record));
        assert_eq!(shared.find(&key(7)), None);
        all_are_free(&shared, 2);
    });
}

#[test]
fn what_is_found_while_it_is_published_is_whole() {
    model(None, || {
        let shared = shared_flows(1).expect("memory");
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let found = other.find(&key(7));
            if let Some(record) = found {
                check(&other, record, 7);
                other.update_state(record, |state| state | 2);
            }
            found
        });
        let record = mine(publish(&shared, 7));
        shared.update_state(record, |state| state | 1);
        let found = thread.join().expect("no panic");
        assert!(found.is_none_or(|found| found == record));
        assert_eq!(shared.state(record), if found.is_some() { 3 } else { 1 });
    });
}

/// One record: what is published second has the memory, and perhaps the slot, of the first.
#[test]
fn what_is_found_while_its_record_is_used_anew_is_of_one_life() {
    model(Some(3), || {
        let shared = shared_flows(1).expect("memory");
        let first = mine(publish(&shared, 7));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            for number in [7, 8] {
                if let Some(record) = other.find(&key(number)) {
                    check(&other, record, number);
                    other.leave(record);
                }
            }
        });
        shared.leave(first);
        match publish(&shared, 8) {
            Published::Mine(second) => {
                thread.join().expect("no panic");
                check(&shared, second, 8);
                assert!(shared.leave(second));
            }
            // The finder still held the first.
            Published::Full => thread.join().expect("no panic"),
            other => panic!("{other:?}"),
        }
        all_are_free(&shared, 1);
    });
}

/// The finder may compare some of a key before, and some after it was written anew.
#[test]
fn a_key_that_is_half_of_one_life_and_half_of_the_next_is_free() {
    model(Some(3), || {
        let shared = shared_flows(1).expect("memory");
        let first = mine(publish(&shared, 7));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let mut torn = key(7);
            torn[KEY_WORDS / 2..].copy_from_slice(&key(8)[KEY_WORDS / 2..]);
            assert_eq!(other.find(&torn), None);
            let turned = std::array::from_fn(|i| torn[KEY_WORDS - 1 - i]);
            assert_eq!(other.find(&turned), None);
        });
        assert!(shared.leave(first));
        mine(publish(&shared, 8));
        thread.join().expect("no panic");
    });
}

/// The entry that a finder reads may be of a draft that comes to nothing.
#[test]
fn a_draft_that_lost_is_never_found() {
    model(None, || {
        let shared = shared_flows(2).expect("memory");
        let held = mine(publish(&shared, 7));
        let finder = shared.clone();
        let find = thread::spawn(move || {
            if let Some(record) = finder.find(&key(7)) {
                check(&finder, record, 7);
                assert_eq!(record, held);
                finder.leave(record);
            }
        });
        let publisher = shared.clone();
        let publish = thread::spawn(move || {
            assert_eq!(publish(&publisher, 7), Published::Theirs(held));
            assert!(!publisher.leave(held));
        });
        find.join().expect("no panic");
        publish.join().expect("no panic");
        assert!(shared.leave(held));
        all_are_free(&shared, 2);
    });
}

#[test]
fn the_last_one_out_frees_the_record_once() {
    model(None, || {
        let shared = shared_flows(1).expect("memory");
        let record = mine(publish(&shared, 7));
        assert_eq!(shared.find(&key(7)), Some(record));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            // The last thread must see this key to remove it.
            other.also(record, &key(9)).expect("room");
            other.leave(record)
        });
        let last = [shared.leave(record), thread.join().expect("no panic")];
        assert_eq!(last.iter().filter(|last| **last).count(), 1);
        assert_eq!([7, 9].map(|number| shared.find(&key(number))), [None; 2]);
        all_are_free(&shared, 1);
    });
}

#[test]
fn what_came_before_a_state_is_seen_with_it() {
    model(None, || {
        let shared = shared_flows(1).expect("memory");
        let record = mine(publish(&shared, 7));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.touch(record, 99);
            other.update_state(record, |state| state | 1);
        });
        let seen_state = shared.update_state(record, |state| state | 2);
        let state = shared.state(record);
        assert_eq!(state | 1, 3);
        if (seen_state | state) & 1 == 1 {
            assert_eq!(shared.last_seen(record), 99);
        }
        thread.join().expect("no panic");
        assert_eq!(shared.state(record), 3);
    });
}

/// What a half writes later, and says by a bit of another word, of which each half has its own.
#[test]
fn words_written_later_are_whole_when_their_bit_is_seen() {
    model(None, || {
        let shared = shared_flows(1).expect("memory");
        let record = mine(shared.publish(&key(7), &[0, 0], 0));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.set_word(record, 1, 99);
            other.add_to_word(record, 0, 1);
        });
        shared.add_to_word(record, 0, 2);
        if shared.word(record, 0) == 3 {
            assert_eq!(shared.word(record, 1), 99);
        }
        thread.join().expect("no panic");
        assert!(shared.words(record).eq([3, 99]));
    });
}

/// Both receive a packet of a direction without an owner. The second one learns the owner, and sees
/// everything that the owner had written before.
#[test]
fn one_of_two_becomes_owner() {
    const FIELD: u64 = 0xff;
    model(None, || {
        let shared = shared_flows(1).expect("memory");
        let record = mine(publish(&shared, 7));
        assert_eq!(shared.find(&key(7)), Some(record));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.set_word(record, 1, 99);
            let taken = other.claim(record, 0, FIELD, 1);
            other.leave(record);
            taken
        });
        let taken = shared.claim(record, 0, FIELD, 2);
        if taken == 1 {
            assert_eq!(shared.word(record, 1), 99);
        }
        let there = thread.join().expect("no panic");
        assert!(taken == there && [1, 2].contains(&taken));
        // Nothing else of the word has changed.
        assert_eq!(shared.word(record, 0), words(7)[0] | taken);
        assert!(shared.leave(record));
    });
}

/// The thread that serves a flow gets a packet with which its session ends and another one begins.
/// The thread that handed the packet off finds that one as soon as it knows that the packet is
/// served.
#[test]
fn what_became_of_a_session_is_known_once_a_packet_is_served() {
    const OVER: u32 = 1 << 8;
    model(None, || {
        let shared = shared_flows(2).expect("memory");
        let handoffs = Arc::new(HandoffCounts::new(2));
        let first = mine(publish(&shared, 7));
        // The guest's half.
        assert_eq!(shared.find(&key(7)), Some(first));
        let (server, served) = (shared.clone(), handoffs.clone());
        let thread = thread::spawn(move || {
            server.update_state(first, |state| state | OVER);
            server.retire(first);
            let second = mine(publish(&server, 7));
            served.add((0, 1), 1);
            server.leave(first);
            second
        });
        let is_served = handoffs.count((0, 1)) == 1;
        let (is_over, found) = (shared.state(first) & OVER != 0, shared.find(&key(7)));
        let second = thread.join().expect("no panic");
        if is_served {
            assert!(is_over);
            assert_eq!(found, Some(second));
        } else {
            assert!(found.is_none_or(|found| found == first || found == second));
        }
        found.map(|found| shared.leave(found));
        assert!(shared.leave(first));
        assert!(shared.leave(second));
        all_are_free(&shared, 2);
    });
}

/// A connection ends while its reply arrives, or its successor begins.
#[test]
fn a_key_is_published_while_its_record_ends() {
    model(None, || {
        let shared = shared_flows(2).expect("memory");
        let first = mine(publish(&shared, 7));
        let other = shared.clone();
        let thread = thread::spawn(move || other.leave(first));
        let published = publish(&shared, 7);
        let freed = thread.join().expect("no panic");
        let record = match published {
            Published::Theirs(record) => {
                assert_eq!((record, freed), (first, false));
                record
            }
            Published::Mine(record) => {
                assert!(freed);
                record
            }
            Published::Full => panic!("there is room"),
        };
        check(&shared, record, 7);
        assert_eq!(shared.find(&key(7)), Some(record));
        assert!(!shared.leave(record));
        assert!(shared.leave(record));
        all_are_free(&shared, 2);
    });
}

/// A translated reply's key, and a connection that begins with it.
#[test]
fn a_second_key_and_a_first_one_cannot_both_win() {
    model(None, || {
        let shared = shared_flows(2).expect("memory");
        let record = mine(publish(&shared, 7));
        let other = shared.clone();
        let thread = thread::spawn(move || publish(&other, 9));
        let also = shared.also(record, &key(9));
        match (also, thread.join().expect("no panic")) {
            (Ok(()), Published::Theirs(same)) => {
                assert_eq!(same, record);
                assert!(!shared.leave(record));
            }
            (Err(AlsoError::Taken), Published::Mine(new)) => {
                check(&shared, new, 9);
                assert!(shared.leave(new));
                assert_eq!(shared.also(record, &key(9)), Ok(()), "its key is free now");
            }
            other => panic!("{other:?}"),
        }
        assert!(shared.leave(record));
        all_are_free(&shared, 2);
    });
}

/// The free list, by threads with unrelated keys. Records come back in another order than they
/// went, and one while the other is still out.
#[test]
fn records_that_come_and_go_are_never_two_connections_at_once() {
    model(Some(2), || {
        let shared = shared_flows(2).expect("memory");
        let other = shared.clone();
        let thread = thread::spawn(move || {
            if let Published::Mine(record) = publish(&other, 7) {
                check(&other, record, 7);
                assert!(other.leave(record));
            }
        });
        let first = mine(publish(&shared, 8));
        let second = publish(&shared, 9);
        assert!(shared.leave(first));
        if let Published::Mine(second) = second {
            check(&shared, second, 9);
            assert!(shared.leave(second));
        }
        thread.join().expect("no panic");
        all_are_free(&shared, 2);
    });
}
