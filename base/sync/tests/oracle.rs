//! What threads share, against plain variables.
#![cfg(not(loom))]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use thruway_sync::{
    Consistency, Credit, PerThreadRw, Rcu, RwSpin, SeqWords, SpinLock, Structure, Tallies, Tally,
    ThreadSlot, Words, WordsMut, spsc,
};

/// Threads that may join at a time.
const THREADS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Add(usize, [u64; 2]),
    Totals(usize),
    Leave(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let thread = 0..THREADS;
    prop_oneof![
        4 => (thread.clone(), any::<[u64; 2]>()).prop_map(|(thread, by)| Op::Add(thread, by)),
        2 => thread.clone().prop_map(Op::Totals),
        1 => thread.prop_map(Op::Leave),
    ]
}

/// Joins, if the slot is free.
fn slot_of<'a, const N: usize>(
    slots: &'a mut [Option<Box<dyn Tally>>; THREADS],
    thread: usize,
    tallies: &Tallies<N>,
) -> &'a mut Box<dyn Tally> {
    slots[thread].get_or_insert_with(|| tallies.join().expect("no more than THREADS at a time"))
}

fn follow<const N: usize>(structure: Structure, ops: &[Op]) {
    let tallies = Tallies::<N>::new(structure, THREADS);
    let mut slots = [const { None }; THREADS];
    let mut plain = [0u64; 2];
    for op in ops {
        match *op {
            Op::Add(thread, by) => {
                slot_of(&mut slots, thread, &tallies).add(by);
                plain = [plain[0].wrapping_add(by[0]), plain[1].wrapping_add(by[1])];
            }
            Op::Totals(thread) => {
                assert_eq!(slot_of(&mut slots, thread, &tallies).totals(), plain, "{structure:?}");
            }
            Op::Leave(thread) => slots[thread] = None,
        }
    }
    assert_eq!(slot_of(&mut slots, 0, &tallies).totals(), plain, "{structure:?}");
}

/// Sums that are multiples of each other, by threads at once, each reading as often as it adds.
fn race(structure: Structure, adds: &[Vec<u32>]) {
    let tallies = Tallies::<2>::new(structure, adds.len() + 1);
    thread::scope(|scope| {
        for adds in adds {
            let mut tally = tallies.join().expect("a place for each");
            scope.spawn(move || {
                let mut last = 0;
                for &by in adds {
                    tally.add([u64::from(by), 3 * u64::from(by)]);
                    let [one, three] = tally.totals();
                    assert!(one >= last + u64::from(by), "{structure:?}");
                    if structure.consistency() > Consistency::Word {
                        assert_eq!(three, 3 * one, "{structure:?}");
                    }
                    last = one;
                }
            });
        }
    });
    let plain: u64 = adds.iter().flatten().map(|by| u64::from(*by)).sum();
    let totals = tallies.join().expect("all left").totals();
    assert_eq!(totals, [plain, 3 * plain], "{structure:?}");
}

fn fill(words: &mut WordsMut<'_, 4>, write: &[(usize, u64)]) {
    write.iter().for_each(|(at, word)| words.set(*at, *word));
}

fn all(words: Words<'_, 4>) -> [u64; 4] {
    std::array::from_fn(|at| words.get(at))
}

proptest! {
    #[test]
    fn sums_are_those_of_plain_variables(ops in prop::collection::vec(op(), 0..60)) {
        for structure in Structure::ALL {
            follow::<2>(*structure, &ops);
            follow::<7>(*structure, &ops);
        }
    }

    /// What is written word by word, and what a write leaves as it was.
    #[test]
    fn words_are_those_of_an_array(
        start in any::<[u64; 4]>(),
        writes in prop::collection::vec(prop::collection::vec((0usize..4, any::<u64>()), 0..5), 0..20),
        slots in 0usize..6,
    ) {
        let mut plain = start;
        let (spin, rw, seq) = (SpinLock::new(start), RwSpin::new(start), SeqWords::new(start));
        let (rcu, own) =
            (Arc::new(Rcu::new(start, 1, slots)), Arc::new(PerThreadRw::new(start, 1)));
        let mut rcu_reader = ThreadSlot::take(&rcu).expect("a free slot");
        let mut own_reader = ThreadSlot::take(&own).expect("a free slot");
        for write in &writes {
            spin.write(|words| fill(words, write));
            rw.write(|words| fill(words, write));
            seq.try_write(|words| fill(words, write)).expect("no other writer");
            rcu.write(|words| fill(words, write));
            own.write(|words| fill(words, write));
            write.iter().for_each(|(at, word)| plain[*at] = *word);
            prop_assert_eq!(spin.read(all), plain);
            prop_assert_eq!(rw.read(all), plain);
            prop_assert_eq!(seq.read(all), Some(plain));
            prop_assert_eq!(rcu_reader.read(all), plain);
            prop_assert_eq!(own_reader.read(all), plain);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn threads_lose_nothing_and_see_no_halves(
        adds in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..500), 1..=THREADS)
    ) {
        for structure in Structure::ALL {
            race(*structure, &adds);
        }
    }
}

#[test]
fn slots_are_as_many_as_threads() {
    for structure in Structure::ALL {
        let tallies = Tallies::<2>::new(*structure, 1);
        let first = tallies.join().expect("a place");
        let shared = matches!(
            structure,
            Structure::Atomic | Structure::Lock | Structure::Rw | Structure::Seq
        );
        assert_eq!(tallies.join().is_some(), shared, "{structure:?}");
        drop(first);
        assert!(tallies.join().is_some(), "{structure:?}");
    }
}

/// A thread that panics leaves; half a version is never seen.
#[test]
fn a_panic_leaves_the_lock() {
    let (spin, rw) = (SpinLock::new([1]), RwSpin::new([1]));
    let (rcu, own) = (Arc::new(Rcu::new([1, 1], 1, 2)), Arc::new(PerThreadRw::new([1], 2)));
    let mut reader = ThreadSlot::take(&rcu).expect("a free slot");
    let mut own_reader = ThreadSlot::take(&own).expect("a free slot");
    let caught = |act: &mut dyn FnMut()| {
        assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    };
    caught(&mut || spin.write(|_| panic!()));
    caught(&mut || rw.read(|_| panic!()));
    caught(&mut || rw.write(|_| panic!()));
    caught(&mut || own.write(|_| panic!()));
    caught(&mut || own_reader.read(|_| panic!()));
    caught(&mut || reader.read(|_| panic!()));
    caught(&mut || {
        rcu.write(|words| {
            words.set(0, 2);
            panic!()
        });
    });
    assert_eq!(reader.read(|words| [words.get(0), words.get(1)]), [1, 1]);
    rcu.write(|words| words.set(1, 2));
    assert_eq!(reader.read(|words| [words.get(0), words.get(1)]), [1, 2]);
    spin.write(|words| words.add(0, 1));
    rw.write(|words| words.add(0, 1));
    own.write(|words| words.add(0, 1));
    assert_eq!([spin.read(|words| words.get(0)), rw.read(|words| words.get(0))], [2, 2]);
    assert_eq!(own_reader.read(|words| words.get(0)), 2);
}

thread_local! {
    /// Pointers that a ring of this thread gave up, in order.
    static ABANDONED: RefCell<Vec<NonNull<u32>>> = const { RefCell::new(Vec::new()) };
}

proptest! {
    /// A ring is a queue of bounded length; what is left in it at the end is given up.
    #[test]
    fn a_ring_is_a_bounded_queue(
        capacity in 1_usize..10,
        ops in prop::collection::vec((any::<bool>(), 0_usize..12, 0_usize..12), 0..60),
    ) {
        let values = [0_u32; 16];
        let (mut producer, mut consumer) =
            spsc(capacity, |left| ABANDONED.with_borrow_mut(|all| all.push(left)));
        let mut queue = VecDeque::new();
        for (is_put, count, end) in ops {
            if is_put {
                let mut items = values[..count].iter().map(NonNull::from);
                prop_assert_eq!(producer.room(count), count.min(capacity - queue.len()));
                let put = producer.put(&mut items);
                prop_assert_eq!(items.len(), count - put);
                queue.extend(values[..put].iter().map(NonNull::from));
            } else {
                // An iteration that stops early leaves the rest in the ring.
                for item in consumer.take(count).take(end) {
                    prop_assert_eq!(Some(item), queue.pop_front());
                }
                let left = consumer.take(count).len();
                prop_assert!(queue.is_empty() || left == count.min(queue.len()));
            }
            prop_assert!(queue.len() <= capacity);
            prop_assert_eq!((producer.len(), consumer.len()), (queue.len(), queue.len()));
        }
        ABANDONED.with_borrow_mut(Vec::clear);
        drop(producer);
        ABANDONED.with_borrow(|all| assert!(all.is_empty(), "the consumer may still take them"));
        drop(consumer);
        ABANDONED.with_borrow(|all| assert_eq!(queue, *all));
    }
}

/// Two threads, a ring much smaller than what goes through: each number once and in order.
/// Ends that lie beside each other share no line: a put must not take the line from the thread that
/// takes out.
#[test]
fn ends_of_rings_have_lines_of_their_own() {
    let mut ends = [spsc::<u8>(4, |_| ()), spsc::<u8>(4, |_| ())];
    let [(producer, consumer), (other, _)] = &mut ends;
    let at = [
        std::ptr::from_mut(producer).addr(),
        std::ptr::from_mut(consumer).addr(),
        std::ptr::from_mut(other).addr(),
    ];
    assert!(at.is_sorted_by(|one, next| next - one >= 128), "{at:?}");
}

#[test]
fn a_ring_carries_everything_between_threads() {
    const COUNT: u32 = 100_000;
    let numbers: Vec<u32> = (0..COUNT).collect();
    let (mut producer, mut consumer) = spsc(64, |_| ());
    thread::scope(|scope| {
        let numbers = &numbers;
        scope.spawn(move || {
            let mut items = numbers.iter().map(NonNull::from);
            while items.len() > 0 {
                if producer.put(&mut items) == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut seen = numbers.iter().map(NonNull::from);
        while seen.len() > 0 {
            if consumer.take(37).fold(0, |count, item| {
                assert_eq!(Some(item), seen.next());
                count + 1
            }) == 0
            {
                thread::yield_now();
            }
        }
    });
    assert!(consumer.is_empty());
}

proptest! {
    /// Credit, against a plain bucket: with one clock it is that; with several, all of them
    /// together never spend more than what there may be and the time that went by.
    #[test]
    fn credit_is_a_bucket(
        most in 1u64..1000,
        steps in proptest::collection::vec((0u64..300, 0u64..50, 0u64..1500, any::<bool>()), 1..60),
        begin: u64,
        clocks_differ: bool,
    ) {
        let credit = Credit::new(begin.wrapping_sub(most));
        let (mut now, mut level, mut sum) = (0, i128::from(most), 0);
        for (step, behind, wanted, overdraws) in steps {
            now += step;
            level = (level + i128::from(step)).min(most.into());
            let clock = if clocks_differ { begin.wrapping_add(now).wrapping_sub(behind) } else {
                begin.wrapping_add(now)
            };
            // What is overdrawn is owed: without that, only what there is.
            let takes = |there: i64| match there {
                there if there >= wanted as i64 || overdraws && there > 0 => wanted,
                _ => 0,
            };
            let spent = credit.spend(clock, most, takes);
            sum += u128::from(if overdraws { 0 } else { spent });
            if clocks_differ {
                if overdraws {
                    credit.give_back(spent);
                }
                prop_assert!(sum <= u128::from(most + now));
            } else {
                let there = i64::try_from(level).unwrap();
                prop_assert_eq!(spent, takes(there));
                level -= i128::from(spent);
            }
        }
    }
}
