//! Random steps of a Master and a Worker against plain queues.

use std::collections::VecDeque;

use proptest::prelude::*;
use thruway_exchange::model::Model;
use thruway_exchange::{Bell, Master, Origin, Outgoing, Refusal, SlotTag, Storage, Tuning, Worker};
use thruway_nf_abi::control::{RUNNING, WAITING};
use thruway_nf_abi::{LinkShape, Token, flag};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// The Master puts a packet of so many bytes.
    Put(usize),
    /// It publishes.
    Publish,
    /// It takes back at most so many slots.
    Poll(u32),
    /// It takes at most so many injected packets.
    PollInjected(u32),
    /// The Worker deals with the first token and is done with it.
    Work { drop: bool, emit: usize, grow: i8, output: u8 },
    /// It injects a packet.
    Inject(usize),
    /// It gives back what it is done with.
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1usize..200).prop_map(Step::Put),
        3 => Just(Step::Publish),
        3 => (0u32..9).prop_map(Step::Poll),
        1 => (0u32..4).prop_map(Step::PollInjected),
        4 => (any::<bool>(), 0usize..4, -8i8..8, 0u8..3).prop_map(|(drop, emit, grow, output)| {
            Step::Work { drop, emit, grow, output }
        }),
        1 => (1usize..80).prop_map(Step::Inject),
        2 => Just(Step::Flush),
    ]
}

struct TestBell {
    status: AtomicU32,
    rings: AtomicU32,
}

impl Bell for TestBell {
    fn status(&self) -> &AtomicU32 {
        &self.status
    }

    fn wake(&self) {
        self.rings.fetch_add(1, Ordering::Relaxed);
    }
}

type Bytes = Vec<u8>;

/// What a plain program would do: queues of packets with their outputs.
#[derive(Default)]
struct Oracle {
    put: VecDeque<Bytes>,
    published: VecDeque<Bytes>,
    done: VecDeque<Vec<(Option<Bytes>, u8)>>,
    returned: VecDeque<Vec<(Option<Bytes>, u8)>>,
    injected: VecDeque<(Bytes, u8)>,
    injected_published: VecDeque<(Bytes, u8)>,
    aux_waiting: usize,
    aux_taken: usize,
}

struct Pair {
    master: Master<Model>,
    worker: Worker<Model>,
    bell: TestBell,
    oracle: Oracle,
    shape: LinkShape,
    next: u8,
}

impl Pair {
    fn new(shape: LinkShape, threshold: u32) -> Pair {
        let model = Model::new(&shape).expect("a good shape");
        // SAFETY: the one Worker of this storage, and the Master below keeps to the protocol.
        // JUSTIFICATION: a Worker can only be made so.
        let worker = unsafe { Worker::new(model.clone(), threshold) };
        Pair {
            master: Master::new(model, 3, Tuning::DEFAULT),
            worker,
            bell: TestBell { status: AtomicU32::new(RUNNING), rings: AtomicU32::new(0) },
            oracle: Oracle::default(),
            shape,
            next: 0,
        }
    }

    fn bytes(&mut self, len: usize) -> Bytes {
        self.next = self.next.wrapping_add(37);
        (0..len).map(|i| self.next.wrapping_add(i as u8)).collect()
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Put(len) => self.put(len),
            Step::Publish => {
                self.master.publish(&self.bell, 0);
                let put = std::mem::take(&mut self.oracle.put);
                self.oracle.published.extend(put);
            }
            Step::Poll(limit) => self.poll(limit),
            Step::PollInjected(limit) => self.poll_injected(limit),
            Step::Work { drop, emit, grow, output } => self.work(drop, emit, grow, output),
            Step::Inject(len) => self.inject(len),
            Step::Flush => {
                assert!(!self.worker.flush(), "the Master does not sleep");
                self.publish_oracle();
                let injected = std::mem::take(&mut self.oracle.injected);
                self.oracle.injected_published.extend(injected);
            }
        }
        let in_use = self.oracle.put.len()
            + self.oracle.published.len()
            + self.oracle.done.len()
            + self.oracle.returned.len();
        assert_eq!(self.master.occupancy() as usize, in_use);
    }

    fn put(&mut self, len: usize) {
        let bytes = self.bytes(len);
        let is_full = self.master.room() == 0;
        let is_long = len > self.shape.packet_len_max.next_multiple_of(8) as usize;
        match self.master.put(SlotTag::of(1, 0, 9), &bytes) {
            Ok(_) => {
                assert!(!is_full && !is_long);
                self.oracle.put.push_back(bytes);
            }
            Err(Refusal::TooLong) => assert!(is_long),
            Err(Refusal::Full) => assert!(is_full),
        }
    }

    fn poll(&mut self, limit: u32) {
        let mut seen: Vec<(Origin, Bytes, u8)> = Vec::new();
        let taken = self.master.poll(0, limit, |token| {
            let mut bytes = vec![0; token.len() as usize];
            token.copy_to(&mut bytes);
            seen.push((token.origin, bytes, token.output as u8));
        });
        let taken = taken.expect("an honest Worker") as usize;
        let mut seen = seen.into_iter();
        for _ in 0..taken {
            let group = self.oracle.returned.pop_front().expect("it was given back");
            self.oracle.aux_taken += group.len() - 1;
            for (nth, (bytes, output)) in group.into_iter().enumerate() {
                let (origin, got, to) = seen.next().expect("as many tokens");
                match bytes {
                    None => assert!(matches!(origin, Origin::Dropped(_))),
                    Some(bytes) => {
                        assert_eq!((got, to), (bytes, output));
                        assert_eq!(matches!(origin, Origin::Aux(_)), nth > 0);
                    }
                }
            }
        }
        assert!(seen.next().is_none(), "more than was given back");
    }

    fn poll_injected(&mut self, limit: u32) {
        let mut seen = Vec::new();
        let taken = self.master.poll_injected(limit, |token| {
            let mut bytes = vec![0; token.len() as usize];
            token.copy_to(&mut bytes);
            seen.push((bytes, token.output as u8));
        });
        let count = taken.expect("an honest Worker") as usize;
        let expected: Vec<_> = self.oracle.injected_published.drain(..count).collect();
        assert_eq!(seen, expected);
    }

    fn work(&mut self, drop: bool, emit: usize, grow: i8, output: u8) {
        if self.worker.waiting() == 0 {
            assert!(self.oracle.published.is_empty());
            return;
        }
        let mut bytes = self.oracle.published.pop_front().expect("it was published");
        let mut head = self.worker.head(0);
        assert_eq!((head.input, head.fcb, usize::from(head.len)), (1, 9, bytes.len()));
        let mut group = Vec::new();
        // Grows into the head room, or gives bytes of the front up.
        let front = i16::from(grow).max(1 - bytes.len() as i16);
        head.start = head.start.wrapping_add_signed(-front);
        head.len = head.len.wrapping_add_signed(front);
        let frame = self.worker.frame_mut(0, &mut head);
        let packet = &mut frame[usize::from(head.start)..][..usize::from(head.len)];
        packet[0] = 0xaa;
        bytes = packet.to_vec();
        head.output = output;
        head.flags |= if drop { flag::DROPPED } else { 0 };
        self.worker.set_head(0, head);
        group.push(((!drop).then_some(bytes), output));
        for nth in 0..emit {
            let extra = self.bytes(10 + nth);
            let (first, second) = extra.split_at(nth);
            if self.worker.emit(Outgoing { output: 2, fcb: 0 }, [first, second]).is_ok() {
                group.push((Some(extra), 2));
                self.oracle.aux_waiting += 1;
            } else {
                let used = self.oracle.aux_waiting - self.oracle.aux_taken;
                assert_eq!(used, self.shape.aux_slots as usize, "refused though there was room");
            }
        }
        self.worker.advance(1);
        self.oracle.done.push_back(group);
        if self.worker_has_published() {
            self.publish_oracle();
        }
    }

    fn worker_has_published(&self) -> bool {
        let word = self.master.storage().word(thruway_nf_abi::Word::WorkerProduced);
        word.load(Ordering::Relaxed) & (self.shape.slots - 1)
            == (self.worker_index() & (self.shape.slots - 1))
    }

    /// W.cons, from what the oracle counts.
    fn worker_index(&self) -> u32 {
        let figures = self.master.figures();
        (figures.returned + figures.dropped) as u32
            + (self.oracle.returned.len() + self.oracle.done.len()) as u32
    }

    fn publish_oracle(&mut self) {
        let done = std::mem::take(&mut self.oracle.done);
        self.oracle.returned.extend(done);
    }

    fn inject(&mut self, len: usize) {
        let bytes = self.bytes(len);
        let used = self.oracle.injected.len() + self.oracle.injected_published.len();
        let sent = self.worker.inject(Outgoing { output: 1, fcb: 0 }, [&bytes, &[]]);
        assert_eq!(sent.is_ok(), used < self.shape.injection_slots as usize);
        if sent.is_ok() {
            self.oracle.injected.push_back((bytes, 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 512 }))]

    #[test]
    fn a_link_behaves_like_queues(
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 30 } else { 400 }),
        slots in 1u32..4,
        aux in 0u32..3,
        threshold in 1u32..6,
    ) {
        let shape = LinkShape {
            slots: 1 << slots,
            aux_slots: 1 << aux,
            injection_slots: 2,
            packet_len_max: 128,
            token: Token::Inline,
            ..LinkShape::DEFAULT
        };
        let mut pair = Pair::new(shape, threshold);
        for step in &steps {
            pair.run(step);
        }
    }

    #[test]
    fn reclaim_gives_each_slot_once(puts in 0u32..9, worked in 0u32..9, polled in 0u32..9) {
        let shape = LinkShape { slots: 8, packet_len_max: 64, ..LinkShape::DEFAULT };
        let mut pair = Pair::new(shape, 1);
        (0..puts).for_each(|_| pair.run(&Step::Put(20)));
        pair.run(&Step::Publish);
        let work = Step::Work { drop: false, emit: 0, grow: 0, output: 0 };
        (0..worked.min(puts)).for_each(|_| pair.run(&work));
        pair.run(&Step::Flush);
        pair.run(&Step::Poll(polled));
        let before = pair.master.occupancy();
        let mut lost = Vec::new();
        prop_assert_eq!(pair.master.reclaim(|slot| lost.push(slot)), before);
        let first = puts.min(8) - before;
        prop_assert_eq!(lost, (first..puts.min(8)).collect::<Vec<_>>());
        prop_assert_eq!(pair.master.occupancy(), 0);
    }
}

#[test]
fn a_sleeping_worker_is_woken_above_the_threshold_or_by_age() {
    let mut pair = Pair::new(LinkShape { slots: 8, ..LinkShape::DEFAULT }, 1);
    pair.master.tuning.master_threshold = 2;
    pair.master.tuning.age_threshold = 100;
    let rings = |pair: &Pair| pair.bell.rings.load(Ordering::Relaxed);
    let put = |pair: &mut Pair, now| {
        pair.master.put(SlotTag::NONE, &[0; 64]).expect("room");
        pair.master.publish(&pair.bell, now);
    };
    pair.bell.status.store(WAITING, Ordering::Relaxed);
    put(&mut pair, 1000);
    put(&mut pair, 1050);
    pair.master.check_age(&pair.bell, 1099);
    assert_eq!(rings(&pair), 0);
    pair.master.check_age(&pair.bell, 1100);
    assert_eq!(rings(&pair), 1, "the oldest has waited for 100");
    pair.bell.status.store(WAITING, Ordering::Relaxed);
    put(&mut pair, 1101);
    assert_eq!(rings(&pair), 2, "three wait, more than two");
    put(&mut pair, 1102);
    assert_eq!(rings(&pair), 2, "it was signalled already");
    pair.bell.status.store(RUNNING, Ordering::Relaxed);
    pair.master.check_age(&pair.bell, 5000);
    assert_eq!(rings(&pair), 2, "it runs");
}

#[test]
fn what_was_shown_is_looked_after_once() {
    let mut pair = Pair::new(LinkShape { slots: 8, ..LinkShape::DEFAULT }, 1);
    pair.master.tuning.master_threshold = 7;
    let rings = |pair: &Pair| pair.bell.rings.load(Ordering::Relaxed);
    let put = |pair: &mut Pair| {
        pair.master.put(SlotTag::NONE, &[0; 64]).expect("room");
        pair.master.publish(&pair.bell, 0);
    };
    pair.master.ensure_awake(&pair.bell);
    assert!(!pair.master.may_sleep_through(), "nothing was shown");
    pair.bell.status.store(RUNNING, Ordering::Relaxed);
    put(&mut pair);
    assert!(pair.master.may_sleep_through());
    pair.master.ensure_awake(&pair.bell);
    assert_eq!((rings(&pair), pair.master.may_sleep_through()), (0, false), "it runs");
    // It looks at the ring once more before it sleeps, so it does not wait for these.
    pair.bell.status.store(WAITING, Ordering::Relaxed);
    pair.master.ensure_awake(&pair.bell);
    assert_eq!(rings(&pair), 0);
    put(&mut pair);
    pair.master.ensure_awake(&pair.bell);
    assert_eq!((rings(&pair), pair.master.may_sleep_through()), (1, false), "it sleeps");
}

#[test]
fn what_is_unattended_waits_since_it_was_shown() {
    let mut pair = Pair::new(LinkShape { slots: 8, ..LinkShape::DEFAULT }, 1);
    pair.master.tuning.master_threshold = 7;
    let put = |pair: &mut Pair, now| {
        pair.master.put(SlotTag::NONE, &[0; 64]).expect("room");
        pair.master.publish(&pair.bell, now);
    };
    assert_eq!(pair.master.unattended_since(), None);
    // More than the ring has slots, so that these are used again.
    for now in (0..200).step_by(20) {
        put(&mut pair, now);
        put(&mut pair, now + 5);
        assert_eq!(pair.master.unattended_since(), Some(now));
        // What came back was seen, although nobody made sure of it.
        assert_eq!(pair.worker.waiting(), 2);
        pair.worker.advance(1);
        pair.master.poll(now + 6, 8, |_| ()).expect("honest");
        assert_eq!(pair.master.unattended_since(), Some(now + 5));
        pair.master.ensure_awake(&pair.bell);
        assert_eq!(pair.master.unattended_since(), None);
        put(&mut pair, now + 10);
        assert_eq!(pair.master.unattended_since(), Some(now + 10));
        assert_eq!(pair.worker.waiting(), 1);
        pair.worker.advance(1);
        assert_eq!(pair.worker.waiting(), 1);
        pair.worker.advance(1);
        pair.master.poll(now + 11, 8, |_| ()).expect("honest");
        assert_eq!(pair.master.unattended_since(), None, "nothing waits");
    }
}

#[test]
fn a_worker_that_goes_on_leaves_the_master_asleep() {
    let mut pair = Pair::new(LinkShape { slots: 8, ..LinkShape::DEFAULT }, 1);
    for _ in 0..4 {
        pair.master.put(SlotTag::NONE, &[0; 64]).expect("room");
    }
    pair.master.publish(&pair.bell, 0);
    assert!(pair.master.rest());
    assert_eq!(pair.worker.waiting(), 4);
    pair.worker.advance(2);
    pair.worker.show();
    assert_eq!(pair.worker.unannounced(), 2);
    pair.worker.advance(2);
    assert!(pair.worker.flush(), "the Master sleeps");
    assert_eq!(pair.worker.unannounced(), 0);
    let mut count = 0;
    pair.master.poll(0, 8, |_| count += 1).expect("honest");
    assert_eq!(count, 4);
}

#[test]
fn a_sleeping_master_is_woken_and_does_not_sleep_over_work() {
    let mut pair = Pair::new(LinkShape { slots: 8, ..LinkShape::DEFAULT }, 1);
    assert!(pair.master.rest());
    pair.worker.inject(Outgoing::default(), [&[1; 20], &[]]).expect("room");
    assert!(pair.worker.flush(), "the Master sleeps");
    assert!(!pair.worker.flush(), "it is signalled once");
    assert!(!pair.master.rest(), "there is something");
    pair.master.poll_injected(8, |_| ()).expect("honest");
    assert!(pair.master.rest());
    pair.master.wakened();
    pair.worker.inject(Outgoing::default(), [&[1; 20], &[]]).expect("room");
    assert!(!pair.worker.flush(), "the Master is awake");
}
