//! What threads share under loom: every interleaving, and what weak memory allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p thruway-sync --test loom`
#![cfg(loom)]

use std::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;
use thruway_sync::atomic::{AtomicU64, Ordering};
use thruway_sync::{
    Consistency, Credit, Preferred, Rcu, RxW, SeqWords, SleepState, StopLevel, Structure, Tallies,
    ThreadSlot, spsc,
};

/// Runs with so many switches away from threads that could go on: waiting in loops has too many
/// interleavings else.
fn bounded(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

/// Two writers of pairs; a reader never sees half of one.
#[test]
fn pairs_are_whole() {
    loom::model(|| {
        let words = Arc::new(SeqWords::new([0, 0]));
        let writers: Vec<_> = (1..3u64)
            .map(|number| {
                let words = words.clone();
                thread::spawn(move || {
                    words.try_write(|words| {
                        words.set(0, number);
                        words.set(1, number);
                    })
                })
            })
            .collect();
        if let Some((first, second)) = words.read(|words| (words.get(0), words.get(1))) {
            assert_eq!(first, second);
        }
        let written = writers.into_iter().filter_map(|writer| writer.join().unwrap()).count();
        assert!(written >= 1, "one of two writers comes first");
        let last = words.read(|words| (words.get(0), words.get(1))).expect("no writer");
        assert!(last.0 == last.1 && last.0 != 0);
    });
}

/// Writers that read what is there lose no increment that was reported as done.
#[test]
fn increments_add_up() {
    loom::model(|| {
        let words = Arc::new(SeqWords::new([0]));
        let other = words.clone();
        let add = |words: &SeqWords<1>| {
            words.try_write(|words| {
                let before = words.get(0);
                words.set(0, before + 1);
            })
        };
        let thread = thread::spawn(move || u64::from(add(&other).is_some()));
        let mine = u64::from(add(&words).is_some());
        let done = mine + thread.join().unwrap();
        assert_eq!(words.read(|words| words.get(0)), Some(done));
    });
}

/// A reader that a writer refuses, or that sees new words, sees the writer's earlier effects: a
/// link that was removed first is seen to be removed.
#[test]
fn what_was_before_a_write_is_seen() {
    loom::model(|| {
        let link = Arc::new(AtomicU64::new(1));
        let words = Arc::new(SeqWords::new([1]));
        let (their_link, their_words) = (link.clone(), words.clone());
        let thread = thread::spawn(move || {
            their_link.store(0, Ordering::Relaxed);
            their_words.try_write(|words| words.set(0, 2)).expect("one writer");
        });
        if link.load(Ordering::Acquire) == 1 && words.read(|words| words.get(0)) != Some(1) {
            // Either the version was odd when it was loaded first, or it changed meanwhile; a
            // second look at the words meets a finished or an unfinished writer, never the old one.
            if words.read(|words| words.get(0)).is_none_or(|word| word == 2) {
                assert_eq!(link.load(Ordering::Acquire), 0);
            }
        }
        thread.join().unwrap();
    });
}

/// In every structure nothing that was added is lost, and a reader sees together what the structure
/// says he does.
#[test]
fn sums_add_up_and_are_seen_together() {
    for structure in Structure::ALL.iter().copied() {
        bounded(3, move || {
            let tallies = Tallies::<2>::new(structure, 2);
            let mut mine = tallies.join().expect("a place");
            let mut other = tallies.join().expect("a place");
            let thread = thread::spawn(move || {
                other.add([1, 1]);
                other.add([1, 1]);
                other.totals()
            });
            mine.add([1, 1]);
            let seen = mine.totals();
            assert!(seen[0] >= 1 && seen[0] <= 3, "{structure:?}: {seen:?}");
            if structure.consistency() > Consistency::Word {
                assert_eq!(seen[0], seen[1], "{structure:?}");
            }
            let theirs = thread.join().unwrap();
            assert!(theirs[1] >= 2 && theirs[1] <= 3, "{structure:?}: {theirs:?}");
            assert_eq!(mine.totals(), [3, 3], "{structure:?}");
        });
    }
}

/// Two threads with different clocks spend what there is, and not more; an overdraft happens once.
#[test]
fn credit_is_spent_once() {
    bounded(3, || {
        let credit = Arc::new(Credit::new(10));
        let other = credit.clone();
        let one = |there: i64| u64::from(there > 0);
        let thread = thread::spawn(move || (0..2).map(|_| other.spend(12, 3, one)).sum::<u64>());
        let mine: u64 = (0..2).map(|_| credit.spend(13, 3, one)).sum();
        let theirs = thread.join().unwrap();
        // Of three units at time 13, the third is not yet there for a thread at time 12.
        assert!(mine == 2 || theirs == 2, "{mine} {theirs}");
        let rest = credit.spend(13, 3, |there| there.max(0) as u64);
        assert_eq!(mine + theirs + rest, 3);
    });
    bounded(3, || {
        let credit = Arc::new(Credit::new(10));
        let other = credit.clone();
        let much = |there: i64| if there > 0 { 100 } else { 0 };
        let thread = thread::spawn(move || other.spend(11, 3, much));
        let mine = credit.spend(11, 3, much);
        assert_eq!(mine + thread.join().unwrap(), 100);
        credit.give_back(100);
        assert_eq!(credit.empty_at(), 10);
    });
}

/// One moment: what one thread adds to his part before another adds to hers is not missing beside
/// it.
#[test]
fn a_moment_is_the_same_for_all_threads() {
    let of_a_moment = Structure::ALL.iter().filter(|one| one.consistency() == Consistency::Moment);
    for structure in of_a_moment.copied() {
        bounded(2, move || {
            let tallies = Tallies::<2>::new(structure, 3);
            let [mut first, mut second, mut reader] =
                [(); 3].map(|()| tallies.join().expect("a place"));
            let thread = thread::spawn(move || {
                // One after the other, in different parts: 0, 1 or 1, 1 are moments, 1, 0 is none.
                first.add([0, 1]);
                second.add([1, 0]);
            });
            let [second, first] = reader.totals();
            assert!(first >= second, "{structure:?}");
            thread.join().unwrap();
        });
    }
}

/// Writes go around a ring of two slots while a reader reads: he sees whole versions, none older
/// than one that he saw, and none that was overwritten.
#[test]
fn versions_are_whole_around_the_ring() {
    bounded(3, || {
        let words = std::sync::Arc::new(Rcu::new([0, 0], 1, 2));
        let mut reader = ThreadSlot::take(&words).expect("a free slot");
        let thread = thread::spawn(move || {
            let mut last = 0;
            for _ in 0..2 {
                let (first, second) = reader.read(|words| (words.get(0), words.get(1)));
                assert_eq!(first, second);
                assert!(first >= last);
                last = first;
            }
        });
        for number in 1..4 {
            words.write(|words| {
                assert_eq!((words.get(0), words.get(1)), (number - 1, number - 1));
                words.set(0, number);
                words.set(1, number);
            });
        }
        thread.join().unwrap();
    });
}

/// Two writers, at once or not, and a reader: whatever the preference, all get in and out, and what
/// is read is of one moment.
#[test]
fn readers_and_writers_keep_apart() {
    for preferred in [Preferred::Neither, Preferred::Readers, Preferred::Writers] {
        bounded(2, move || {
            let words = std::sync::Arc::new(RxW::<2>::new(2, preferred));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let mut thread_slot = ThreadSlot::take(&words).expect("a free slot");
                    thread::spawn(move || {
                        thread_slot.write(|words| {
                            words.add(0, 1);
                            words.add(1, 1);
                        });
                    })
                })
                .collect();
            words.fold((), |(), words| assert_eq!(words.get(0), words.get(1)));
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert_eq!(words.fold(0, |sum, words| sum + words.get(0)), 2);
        });
    }
}

/// Two of the preferred side wait for one of the other.
#[test]
fn the_preferred_follow_one_after_the_other() {
    for preferred in [Preferred::Readers, Preferred::Writers] {
        bounded(2, move || {
            let words = std::sync::Arc::new(RxW::<1>::new(2, preferred));
            let thread_slots = [(); 2].map(|()| ThreadSlot::take(&words).expect("a free slot"));
            let threads: Vec<_> = thread_slots
                .into_iter()
                .map(|mut thread_slot| {
                    let words = words.clone();
                    thread::spawn(move || match preferred {
                        Preferred::Readers => words.fold(0, |sum, words| sum + words.get(0)),
                        _ => thread_slot.write(|words| {
                            words.add(0, 1);
                            0
                        }),
                    })
                })
                .collect();
            words.fold((), |(), words| assert!(words.get(0) <= 1));
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 0));
            let written = words.fold(0, |sum, words| sum + words.get(0));
            assert_eq!(written, if preferred == Preferred::Writers { 2 } else { 0 });
        });
    }
}

/// A seat that was left is taken with all that was done there.
#[test]
fn a_thread_slot_is_reused() {
    loom::model(|| {
        let tallies = Tallies::<2>::new(Structure::PerThread, 1);
        let mut first = tallies.join().expect("a place");
        let thread = thread::spawn(move || {
            first.add([1, 1]);
        });
        let early = tallies.join().map(|mut second| second.add([1, 1])).is_some();
        thread.join().unwrap();
        let mut last = tallies.join().expect("everybody left");
        assert_eq!(last.totals(), [1 + u64::from(early); 2]);
    });
}

/// A thread that sleeps after an unsuccessful check is woken by one that left work meanwhile, also
/// when it sleeps a second time.
#[test]
fn no_wake_up_is_lost() {
    bounded(2, || {
        let sleep_state = Arc::new(SleepState::default());
        let left = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let rung = Arc::new(AtomicU64::new(0));
        let leave = |at: usize| {
            let (sleep_state, left, rung) = (sleep_state.clone(), left.clone(), rung.clone());
            thread::spawn(move || {
                left[at].store(1, Ordering::Release);
                if sleep_state.must_wake() {
                    // The kernel ends a sleep: the sleeper sees it.
                    rung.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let others = [leave(0), leave(1)];
        let found = || left.iter().filter(|one| one.load(Ordering::Acquire) == 1).count();
        let mut rings = 0;
        let mut slept = None;
        for _ in 0..2 {
            sleep_state.prepare_wait();
            let seen = found();
            if seen == 2 {
                sleep_state.end_wait();
                break;
            }
            // It sleeps: on a ring that has come already it gets up at once.
            let now = rung.load(Ordering::SeqCst);
            if now == rings {
                slept = Some((seen, now));
                break;
            }
            rings = now;
            sleep_state.end_wait();
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        if let Some((seen, before)) = slept {
            // More was left than it saw, so another thread rang after it had checked for rings.
            assert!(seen == 2 || rung.load(Ordering::SeqCst) > before, "it sleeps for ever");
        }
    });
}

/// Pointers arrive once and in order, through a ring that is smaller than what goes through, and
/// what was written before they were put in is seen.
#[test]
fn a_ring_carries_each_once_and_in_order() {
    bounded(3, || {
        let (mut producer, mut consumer) = spsc::<AtomicU64>(2, |_| ());
        let words: Arc<[AtomicU64; 3]> = Arc::default();
        let theirs = words.clone();
        let thread = thread::spawn(move || {
            theirs.iter().for_each(|word| word.store(1, Ordering::Relaxed));
            let mut pointers = theirs.iter().map(NonNull::from);
            let first = producer.put(&mut pointers);
            assert_eq!(first, 2);
            first + producer.put(&mut pointers)
        });
        let mut seen = 0;
        for _ in 0..2 {
            for pointer in consumer.take(2) {
                assert_eq!(pointer, NonNull::from(&words[seen]));
                assert_eq!(words[seen].load(Ordering::Relaxed), 1);
                seen += 1;
            }
        }
        let put = thread.join().unwrap();
        assert_eq!(consumer.len(), put - seen);
        assert_eq!(consumer.take(3).count(), put - seen);
    });
}

/// An operator's hot swaps, which fail, pause runs while a signal ends the program, as a thread of
/// the router sees it: whatever comes first, the last run ends.
#[test]
fn a_pause_clears_no_end() {
    bounded(4, || {
        let stops = Arc::new(StopLevel::default());
        let (operator, signal) = (stops.clone(), stops.clone());
        let operator = thread::spawn(move || operator.pause(operator.current()));
        let signal = thread::spawn(move || signal.end());
        while !stops.is_ended() {
            let run = stops.current();
            while !stops.is_due() {
                thread::yield_now();
            }
            stops.finish(run);
        }
        assert!(stops.is_due(), "no run begins any more");
        operator.join().unwrap();
        signal.join().unwrap();
        assert!(stops.is_due() && stops.is_ended());
    });
}

/// A timer that was set for one run ends that run, however late or early it comes, and no other;
/// an element's stop beside a pause is not forgotten.
#[test]
fn a_stop_is_for_its_run() {
    loom::model(|| {
        let stops = Arc::new(StopLevel::default());
        let first = stops.current();
        let (timer, operator) = (stops.clone(), stops.clone());
        let timer = thread::spawn(move || timer.stop(first));
        let operator = thread::spawn(move || operator.pause(first));
        while !stops.is_due() {
            thread::yield_now();
        }
        stops.finish(first);
        assert!(!stops.is_due(), "the next run goes on");
        timer.join().unwrap();
        operator.join().unwrap();
        assert!(!stops.is_due() && stops.is_stopped(first) && !stops.is_ended());
    });
}
