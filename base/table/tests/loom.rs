//! The tables under loom: every interleaving, and what weak memory allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p thruway-table --test loom`
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use thruway_table::{AgingTable, DenseTable, Learnt, TICK_NS};

fn bounded(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(check);
}

/// Two threads learn keys of one bucket: nothing is lost without a report, and what is found
/// belongs to its key.
#[test]
fn entries_belong_to_their_keys() {
    bounded(|| {
        let table = Arc::new(AgingTable::<2>::new(1, 100 * TICK_NS));
        let theirs = table.clone();
        let thread = thread::spawn(move || theirs.learn(1, [1, 11], 0));
        let mine = table.learn(2, [2, 22], 0);
        if let Some(value) = table.find(1, 0) {
            assert_eq!(value, [1, 11]);
        }
        let learnt = thread.join().unwrap();
        for (key, learnt) in [(1, learnt), (2, mine)] {
            let wanted = (learnt == Learnt::Stored).then_some([key, 11 * key]);
            assert_eq!(table.find(key, 0), wanted);
        }
        assert!(learnt == Learnt::Stored || mine == Learnt::Stored);
    });
}

/// A number always has one of its own entries, while its entry is replaced and its old slot used
/// for another number.
#[test]
fn a_number_has_its_entry_at_any_time() {
    bounded(|| {
        let table = Arc::new(DenseTable::<2>::new(2, 2).unwrap());
        table.set(1, [1, 10]).unwrap();
        let theirs = table.clone();
        let thread = thread::spawn(move || {
            theirs.set(1, [2, 20]).unwrap();
            // This takes the slot that number 1 had.
            theirs.set(3, [7, 70]).unwrap();
        });
        let found = table.get(1).expect("it always has an entry");
        assert!(found == [1, 10] || found == [2, 20], "{found:?}");
        thread.join().unwrap();
        assert_eq!(table.get(1), Some([2, 20]));
        assert_eq!(table.get(3), Some([7, 70]));
    });
}

/// Look-ups never go back: an entry that is written but not yet referenced is not found before the
/// one that it replaces.
#[test]
fn a_number_never_goes_back() {
    bounded(|| {
        let table = Arc::new(DenseTable::<2>::new(1, 1).unwrap());
        table.set(1, [1, 10]).unwrap();
        let theirs = table.clone();
        let thread = thread::spawn(move || {
            theirs.set(1, [2, 20]).unwrap();
            // This takes the slot of the first one.
            theirs.set(1, [3, 30]).unwrap();
        });
        let [first, second] = [0; 2].map(|_| table.get(1).expect("it always has an entry"));
        assert!(first[0] <= second[0], "{first:?}, then {second:?}");
        thread.join().unwrap();
    });
}
