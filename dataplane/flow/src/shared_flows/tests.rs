//! Tests that need the internals: full buckets, and counts at their end.

use super::index::SLOTS;
use super::*;

const SEED: [u64; 2] = [0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321];

fn key(number: u32) -> Key {
    let mut key = [0; KEY_WORDS];
    key[..4].copy_from_slice(&[0x0a00_0001, 0xc0a8_0000 | number >> 16, number, 6]);
    key
}

fn mine(published: Published) -> RecordId {
    match published {
        Published::Mine(record) => record,
        other => panic!("{other:?}"),
    }
}

/// Keys of one bucket, that of the first.
fn neighbours(shared_flows: &SharedFlows) -> impl Iterator<Item = Key> {
    let bucket = |n| shared_flows.index.bucket(shared_flows.hasher.hash(&key(n))).address();
    (0..).filter(move |n| bucket(*n) == bucket(0)).map(key)
}

#[test]
fn a_full_bucket_refuses_a_key_and_has_room_again_later() {
    let shared_flows = SharedFlows::new(100, 0, SEED).expect("memory");
    let mut keys = neighbours(&shared_flows);
    let held: Vec<_> =
        keys.by_ref().take(SLOTS).map(|key| mine(shared_flows.publish(&key, &[], 0))).collect();
    let more = keys.next().expect("endless");
    assert_eq!(shared_flows.publish(&more, &[], 0), Published::Full);
    assert_eq!(shared_flows.also(held[0], &more), Err(AlsoError::Full));
    // A key that is there needs no room.
    assert_eq!(shared_flows.publish(&key(0), &[], 0), Published::Theirs(held[0]));
    assert!(!shared_flows.leave(held[0]));
    // The failures left nothing behind.
    let elsewhere = (0..).map(key).find(|key| shared_flows.find(key).is_none()).expect("endless");
    assert_eq!(shared_flows.also(held[1], &elsewhere), Ok(()));
    assert!(shared_flows.leave(held[SLOTS / 2]));
    mine(shared_flows.publish(&more, &[], 0));
    assert_eq!(shared_flows.find(&key(0)), Some(held[0]));
}

#[test]
fn halves_are_counted_up_to_a_bound_and_not_beyond() {
    const HALVES_MAX: usize = 0xffff;
    let shared_flows = SharedFlows::new(2, 0, SEED).expect("memory");
    let record = mine(shared_flows.publish(&key(1), &[], 0));
    assert!((1..HALVES_MAX).all(|_| shared_flows.find(&key(1)) == Some(record)));
    assert_eq!(shared_flows.find(&key(1)), None);
    assert_eq!(shared_flows.publish(&key(1), &[], 0), Published::Full);
    assert_eq!(shared_flows.also(record, &key(2)), Ok(()), "the count spoils nothing beside it");
    assert!((1..HALVES_MAX).all(|_| !shared_flows.leave(record)));
    assert!(shared_flows.leave(record));
    assert_eq!([key(1), key(2)].map(|key| shared_flows.find(&key)), [None; 2]);
}

#[test]
fn a_table_full_of_records_with_two_keys_refuses_hardly_any() {
    const RECORDS: u32 = 60_000;
    let shared_flows = SharedFlows::new(RECORDS, 1, SEED).expect("memory");
    let mut refused = 0;
    for n in 0..RECORDS {
        match shared_flows.publish(&key(2 * n), &[u64::from(n)], n) {
            Published::Mine(record) => {
                refused += u32::from(shared_flows.also(record, &key(2 * n + 1)).is_err());
            }
            _ => refused += 1,
        }
    }
    // 1 in 40,000 keys is expected, of 120,000.
    assert!(refused <= 15, "{refused} of {}", 2 * RECORDS);
    let found = (0..2 * RECORDS).filter_map(|n| {
        let record = shared_flows.find(&key(n))?;
        assert!(shared_flows.words(record).eq([u64::from(n / 2)]));
        assert_eq!(shared_flows.last_seen(record), n / 2);
        Some(shared_flows.leave(record))
    });
    assert!(found.filter(|last| !last).count() >= 2 * RECORDS as usize - 2 * refused as usize);
}

#[test]
fn lines_are_where_cache_lines_are() {
    let shared_flows = SharedFlows::new(1000, 0, SEED).expect("memory");
    for n in 0..1000 {
        let bucket = shared_flows.index.bucket(shared_flows.hasher.hash(&key(n)));
        assert_eq!(bucket.address() % 128, 0);
    }
}
