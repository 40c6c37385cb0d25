//! The rings and the wake-up word under loom: every interleaving, and what weak memory allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p thruway-exchange --test loom`
#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use loom::thread;
use thruway_exchange::model::Model;
use thruway_exchange::{
    Bell, Master, NoRoom, Origin, Outgoing, SleepWord, SlotTag, Token, Tuning, Worker, rest,
};
use thruway_nf_abi::control::{RUNNING, WAITING};
use thruway_nf_abi::{LinkShape, flag};
use thruway_sync::atomic::{AtomicU32, Ordering};

const SHAPE: LinkShape = LinkShape {
    slots: 2,
    aux_slots: 2,
    injection_slots: 2,
    packet_len_max: 64,
    headroom: 0,
    ..LinkShape::DEFAULT
};

/// What a futex does: sleep while the word has a value, woken by a call. A wake-up that is lost is
/// a deadlock, which loom reports.
struct Futex {
    word: AtomicU32,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    fn new(value: u32) -> Futex {
        Futex { word: AtomicU32::new(value), lock: Mutex::new(()), woken: Condvar::new() }
    }

    fn wait(&self, value: u32) {
        let mut guard = self.lock.lock().expect("no panic");
        while self.word.load(Ordering::Relaxed) == value {
            guard = self.woken.wait(guard).expect("no panic");
        }
    }

    fn notify(&self) {
        drop(self.lock.lock().expect("no panic"));
        self.woken.notify_all();
    }
}

impl Bell for Futex {
    fn status(&self) -> &AtomicU32 {
        &self.word
    }

    fn wake(&self) {
        self.notify();
    }
}

impl SleepWord for Futex {
    fn status(&self) -> &AtomicU32 {
        &self.word
    }

    fn sleep(&self, _at_most: Option<Duration>) {
        self.wait(WAITING);
    }
}

/// The Master's eventfd: 1 once written.
fn eventfd_wait(eventfd: &Futex) {
    eventfd.wait(0);
    eventfd.word.swap(0, Ordering::Relaxed);
}

fn eventfd_write(eventfd: &Futex) {
    eventfd.word.swap(1, Ordering::Relaxed);
    eventfd.notify();
}

struct Link {
    master: Master<Model>,
    worker: Worker<Model>,
}

fn link(threshold: u32) -> Link {
    link_of(&SHAPE, threshold)
}

fn link_of(shape: &LinkShape, threshold: u32) -> Link {
    let model = Model::new(shape).expect("a good shape");
    // JUSTIFICATION: a Worker can only be made so.
    // SAFETY: the one Worker of this storage; its Master keeps to the protocol.
    let worker = unsafe { Worker::new(model.clone(), threshold) };
    Link { master: Master::new(model, 1, Tuning::DEFAULT), worker }
}

/// Checks every interleaving, or those with at most `LOOM_MAX_PREEMPTIONS` preemptions.
fn check(model: impl Fn() + Send + Sync + 'static) {
    loom::model::Builder::new().check(model);
}

/// Checks the interleavings with at most four preemptions, or `LOOM_MAX_PREEMPTIONS`. For models in
/// which threads sleep and are woken: each sleep multiplies the interleavings, so that these do not
/// end in two minutes without a bound. Six preemptions were checked (30 to 60 s a model), and
/// `verify/mutants` shows that four find every ordering that is too weak.
fn check_bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(4));
    builder.check(model);
}

/// Marks the first waiting packet, as a function would.
fn process(worker: &mut Worker<Model>) {
    let mut head = worker.head(0);
    worker.frame_mut(0, &mut head)[0] |= 0x80;
    worker.set_head(0, head);
}

/// A Worker that sleeps when nothing waits, until it has processed `total`.
fn work(mut worker: Worker<Model>, total: u32, bed: &Futex, master: &Futex) {
    let mut done = 0;
    while done < total {
        if worker.waiting() == 0 {
            if worker.flush() {
                eventfd_write(master);
            }
            rest(bed, None, || worker.has_work());
            continue;
        }
        process(&mut worker);
        worker.advance(1);
        done += 1;
    }
    if worker.flush() {
        eventfd_write(master);
    }
}

/// Takes back until `total` came, in order and marked; sleeps when nothing is there.
fn take_back(master: &mut Master<Model>, eventfd: &Futex, mut next: u8, total: u8) {
    while next < total {
        let taken = master.poll(0, 8, |token| {
            let mut bytes = [0; 8];
            token.copy_to(&mut bytes);
            assert_eq!(bytes[0], 0x80 | next);
            next += 1;
        });
        if taken.expect("an honest Worker") == 0 && master.rest() {
            eventfd_wait(eventfd);
        }
    }
}

/// Two tokens, published one by one above this threshold; `and_then` follows each publication.
fn two_tokens_come_back(threshold: u32, and_then: fn(&mut Master<Model>, &Futex)) {
    check_bounded(move || {
        let Link { mut master, worker } = link(1);
        master.tuning.master_threshold = threshold;
        let bed = Arc::new(Futex::new(RUNNING));
        let eventfd = Arc::new(Futex::new(0));
        let (worker_bed, worker_eventfd) = (bed.clone(), eventfd.clone());
        let thread = thread::spawn(move || work(worker, 2, &worker_bed, &worker_eventfd));
        for number in 0..2u8 {
            master.put(SlotTag::NONE, &[number; 8]).expect("room");
            master.publish(&*bed, 0);
            and_then(&mut master, &bed);
        }
        take_back(&mut master, &eventfd, 0, 2);
        thread.join().expect("no panic");
    });
}

#[test]
fn tokens_come_back_and_nobody_sleeps_for_ever() {
    two_tokens_come_back(0, |_, _| {});
}

/// What was gathered is looked after once: a Worker that was awake then does not sleep over it.
#[test]
fn gathered_tokens_are_not_slept_over() {
    two_tokens_come_back(8, |master, bed| {
        master.ensure_awake(bed);
        master.ensure_awake(bed);
    });
}

#[test]
fn slots_are_used_again() {
    check_bounded(|| {
        let Link { mut master, worker } = link(2);
        let bed = Arc::new(Futex::new(RUNNING));
        let eventfd = Arc::new(Futex::new(0));
        let (worker_bed, worker_eventfd) = (bed.clone(), eventfd.clone());
        let thread = thread::spawn(move || work(worker, 3, &worker_bed, &worker_eventfd));
        for number in 0..2u8 {
            master.put(SlotTag::NONE, &[number; 8]).expect("room");
        }
        master.publish(&*bed, 0);
        take_back(&mut master, &eventfd, 0, 2);
        master.put(SlotTag::NONE, &[2; 8]).expect("room");
        master.publish(&*bed, 0);
        take_back(&mut master, &eventfd, 2, 3);
        thread.join().expect("no panic");
    });
}

#[test]
fn auxiliary_and_injected_packets_are_whole_when_they_are_seen() {
    check(|| {
        let Link { mut master, mut worker } = link(1);
        let bell = Futex::new(RUNNING);
        master.put(SlotTag::NONE, &[1; 8]).expect("room");
        master.publish(&bell, 0);
        let eventfd = Arc::new(Futex::new(0));
        let worker_eventfd = eventfd.clone();
        let thread = thread::spawn(move || {
            assert_eq!(worker.waiting(), 1);
            for byte in [2, 3] {
                worker.emit(Outgoing::default(), [&[byte; 4], &[byte; 4]]).expect("room");
            }
            let mut head = worker.head(0);
            head.flags |= flag::DROPPED;
            worker.set_head(0, head);
            worker.inject(Outgoing::default(), [&[4; 8], &[]]).expect("room");
            worker.advance(1);
            if worker.flush() {
                eventfd_write(&worker_eventfd);
            }
        });
        let mut seen = Vec::new();
        let mut injected = 0;
        while seen.len() < 3 || injected < 1 {
            let mut taken = master
                .poll(0, 8, |token| {
                    let mut bytes = [0; 8];
                    token.copy_to(&mut bytes);
                    seen.push((token.origin, bytes[0]));
                })
                .expect("an honest Worker");
            taken += master
                .poll_injected(8, |token| {
                    let mut bytes = [0; 8];
                    token.copy_to(&mut bytes);
                    assert_eq!(bytes, [4; 8]);
                    injected += 1;
                })
                .expect("an honest Worker");
            if taken == 0 && master.rest() {
                eventfd_wait(&eventfd);
            }
        }
        assert_eq!(seen, [(Origin::Dropped(0), 0), (Origin::Aux(0), 2), (Origin::Aux(0), 3)]);
        thread.join().expect("no panic");
    });
}

/// A shape with one slot in each side ring: the second packet waits for the first.
const SMALL: LinkShape = LinkShape { aux_slots: 1, injection_slots: 1, ..SHAPE };

/// Retries until the Master has freed a slot of a side ring; loom runs the Master meanwhile.
fn until_there_is_room(mut send: impl FnMut() -> Result<(), NoRoom>) {
    while let Err(error) = send() {
        assert_eq!(error, NoRoom::Full);
        thread::yield_now();
    }
}

/// The Master frees an auxiliary slot only after it has copied the packet (the Release of
/// `AuxConsumed`), so the Worker's next packet in that slot cannot change what the Master reads.
#[test]
fn auxiliary_slots_are_used_again() {
    check(|| {
        let Link { mut master, mut worker } = link_of(&SMALL, 1);
        let bell = Futex::new(RUNNING);
        for number in 0..2u8 {
            master.put(SlotTag::NONE, &[number; 8]).expect("room");
        }
        master.publish(&bell, 0);
        let thread = thread::spawn(move || {
            for byte in [2, 3u8] {
                assert!(worker.waiting() > 0);
                until_there_is_room(|| worker.emit(Outgoing::default(), [&[byte; 8], &[]]));
                worker.advance(1);
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 4 {
            let take = |token: Token<'_, Model>| {
                let mut bytes = [0; 8];
                token.copy_to(&mut bytes);
                assert_eq!(bytes, [bytes[0]; 8]);
                seen.push(bytes[0]);
            };
            if master.poll(0, 8, take).expect("an honest Worker") == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(seen, [0, 2, 1, 3]);
        thread.join().expect("no panic");
    });
}

/// As above, for the injection ring and `InjectionConsumed`.
#[test]
fn injection_slots_are_used_again() {
    check(|| {
        let Link { mut master, mut worker } = link_of(&SMALL, 1);
        let thread = thread::spawn(move || {
            for byte in [2, 3u8] {
                until_there_is_room(|| worker.inject(Outgoing::default(), [&[byte; 8], &[]]));
                // The Master polls and does not sleep.
                assert!(!worker.flush());
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let take = |token: Token<'_, Model>| {
                let mut bytes = [0; 8];
                token.copy_to(&mut bytes);
                assert_eq!(bytes, [bytes[0]; 8]);
                seen.push(bytes[0]);
            };
            if master.poll_injected(8, take).expect("an honest Worker") == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(seen, [2, 3]);
        thread.join().expect("no panic");
    });
}

/// Two Masters, each with its own link, one Worker with one wake-up word.
#[test]
fn two_masters_wake_one_worker() {
    check_bounded(|| {
        let bed = Arc::new(Futex::new(RUNNING));
        let mut ends: Vec<Link> = (0..2).map(|_| link(1)).collect();
        let mut second = ends.pop().expect("two");
        let mut first = ends.pop().expect("two");
        let worker_bed = bed.clone();
        let thread = thread::spawn(move || {
            let mut workers = [first.worker, second.worker];
            let mut done = 0;
            while done < 2 {
                for worker in &mut workers {
                    if worker.waiting() > 0 {
                        process(worker);
                        worker.advance(1);
                        done += 1;
                    }
                }
                if done < 2 {
                    let [a, b] = &mut workers;
                    rest(&*worker_bed, None, || a.has_work() || b.has_work());
                }
            }
        });
        let other_bed = bed.clone();
        let other = thread::spawn(move || {
            second.master.put(SlotTag::NONE, &[2; 8]).expect("room");
            second.master.publish(&*other_bed, 0);
        });
        first.master.put(SlotTag::NONE, &[1; 8]).expect("room");
        first.master.publish(&*bed, 0);
        other.join().expect("no panic");
        thread.join().expect("no panic");
    });
}

/// As published (Algorithm 5 lines 24 to 26): the Worker says that it waits and does not look
/// again. Loom finds the wake-up that is lost; so the tests above would find one too.
#[test]
#[should_panic(expected = "deadlock")]
fn without_the_second_look_a_wake_up_is_lost() {
    loom::model(|| {
        let Link { mut master, mut worker } = link(1);
        let bed = Arc::new(Futex::new(RUNNING));
        let worker_bed = bed.clone();
        let thread = thread::spawn(move || {
            while worker.waiting() == 0 {
                rest(&*worker_bed, None, || false);
            }
        });
        master.put(SlotTag::NONE, &[1; 8]).expect("room");
        master.publish(&*bed, 0);
        thread.join().expect("no panic");
    });
}
