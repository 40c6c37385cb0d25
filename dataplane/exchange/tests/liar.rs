//! A Worker that lies: every lie is a fault, none is believed, none is a panic.

use proptest::prelude::*;
use thruway_exchange::model::{FEW, Model, Silent, lone_master};
use thruway_exchange::{Location, Master, Origin, PeerFault, SlotTag, Storage};
use thruway_nf_abi::{Ring, SlotHead, Word, flag};
use thruway_sync::atomic::Ordering;

/// A Master with five tokens at the Worker, and the memory that the Worker can write.
fn master() -> (Master<Model>, Model) {
    let (mut master, model) = lone_master(2);
    for byte in 0..5 {
        master.put(SlotTag::NONE, &[byte; 60]).expect("room");
    }
    master.publish(&Silent::default(), 0);
    (master, model)
}

fn give_back(model: &Model, index: u32) {
    model.word(Word::WorkerProduced).store(index, Ordering::Relaxed);
}

fn spoil(model: &Model, change: impl FnOnce(&mut SlotHead)) {
    let mut head = model.head(Ring::Primary, 0);
    change(&mut head);
    model.set_head(Ring::Primary, 0, head);
}

/// What the Master says to the first slot's head being changed so.
fn fault_of(change: impl FnOnce(&mut SlotHead)) -> PeerFault {
    let (mut master, model) = master();
    spoil(&model, change);
    give_back(&model, 5);
    let fault = master.poll(0, 100, |_| panic!("a lie was believed")).expect_err("a fault");
    assert_eq!(master.poll(0, 100, |_| panic!("believed after a lie")), Err(fault));
    assert_eq!(master.poll_injected(9, |_| panic!("believed after a lie")), Err(fault));
    assert_eq!(master.reclaim(|_| ()), 5, "no slot was taken back");
    fault
}

#[test]
fn indices_past_the_end_or_back() {
    let (mut first, model) = master();
    give_back(&model, 6);
    let fault = PeerFault::Index { index: 6, owned: 5 };
    assert_eq!(first.poll(0, 9, |_| ()), Err(fault));
    let (mut second, model) = master();
    give_back(&model, 3);
    assert_eq!(second.poll(0, 9, |_| ()), Ok(3));
    give_back(&model, 2);
    let fault = PeerFault::Index { index: u32::MAX, owned: 2 };
    assert_eq!(second.poll(0, 9, |_| ()), Err(fault));
    assert_eq!(second.fault(), Some(fault));
}

#[test]
fn heads_out_of_bounds() {
    let frame_len = FEW.frame_len();
    let bounds = |start, len| PeerFault::Bounds { start, len, frame_len };
    assert_eq!(fault_of(|head| head.len = 0), bounds(64, 0));
    assert_eq!(fault_of(|head| head.len = 129), bounds(64, 129));
    assert_eq!(fault_of(|head| head.start = u16::MAX), bounds(u16::MAX, 60));
    assert_eq!(
        fault_of(|head| (head.start, head.len) = (u16::MAX, u16::MAX)),
        bounds(u16::MAX, u16::MAX)
    );
    assert_eq!(fault_of(|head| head.output = 2), PeerFault::Output { output: 2, outputs: 2 });
    assert_eq!(fault_of(|head| head.flags = 0x80), PeerFault::Flags(0x80));
    assert_eq!(fault_of(|head| head.flags = flag::NEXT), PeerFault::Flags(flag::NEXT));
}

#[test]
fn news_of_a_session_come_back_whatever_the_worker_says() {
    for (flags, len) in [(flag::DROPPED, 0), (flag::RELEASED | flag::NEW, 60), (0, 1)] {
        let (mut master, model) = master();
        assert_eq!(master.put_released(7), Ok(5));
        master.put(SlotTag::of(1, 1, 7).new_session(), &[9; 60]).expect("room");
        master.publish(&Silent::default(), 0);
        let head = model.head(Ring::Primary, 5);
        assert_eq!((head.flags, head.fcb, head.len), (flag::RELEASED, 7, 0));
        let first = model.head(Ring::Primary, 6);
        assert_eq!((first.flags, first.fcb, first.direction), (flag::NEW, 7, 1));
        model.set_head(Ring::Primary, 5, SlotHead { flags, len, ..head });
        give_back(&model, 7);
        let mut slots = Vec::new();
        assert_eq!(master.poll(0, 9, |token| slots.push(token.origin)), Ok(7));
        let is_dropped = flags == flag::DROPPED;
        let news = if is_dropped { Origin::Dropped(5) } else { Origin::Slot(5) };
        assert_eq!(slots[5..], [news, Origin::Slot(6)]);
    }
}

#[test]
fn auxiliary_packets_that_are_not_there() {
    let (mut master, model) = master();
    spoil(&model, |head| head.flags = flag::AUX);
    give_back(&model, 1);
    assert_eq!(master.poll(0, 9, |_| ()), Err(PeerFault::Chain));
}

#[test]
fn a_chain_without_end_and_a_ring_beyond_its_length() {
    for (filled, fault) in [(4, PeerFault::Chain), (5, PeerFault::Ring { count: 5, free: 4 })] {
        let (mut master, model) = master();
        spoil(&model, |head| head.flags = flag::AUX);
        for slot in 0..4 {
            let head = SlotHead { start: 64, len: 60, flags: flag::NEXT, ..SlotHead::default() };
            model.set_head(Ring::Aux, slot, head);
        }
        model.word(Word::AuxProduced).store(filled, Ordering::Relaxed);
        give_back(&model, 1);
        assert_eq!(master.poll(0, 9, |_| ()), Err(fault));
        assert_eq!(master.reclaim(|_| ()), 4, "the slot before the chain was taken");
    }
}

#[test]
fn an_injection_ring_beyond_its_length_or_back() {
    let (mut master, model) = master();
    let head = SlotHead { start: 64, len: 60, ..SlotHead::default() };
    (0..4).for_each(|slot| model.set_head(Ring::Injection, slot, head));
    model.word(Word::Injected).store(2, Ordering::Relaxed);
    assert_eq!(master.poll_injected(9, |_| ()), Ok(2));
    model.word(Word::Injected).store(1, Ordering::Relaxed);
    let fault = PeerFault::Ring { count: u32::MAX, free: 4 };
    assert_eq!(master.poll_injected(9, |_| ()), Err(fault));
    assert_eq!(master.poll(0, 9, |_| ()), Err(fault));
}

#[test]
fn a_worker_that_mends_its_lie_is_not_believed() {
    // The lie is in the ring of injections, while slots wait that it gave back before.
    let (mut first, model) = master();
    give_back(&model, 5);
    assert_eq!(first.poll(0, 2, |_| ()), Ok(2));
    model.word(Word::Injected).store(12, Ordering::Relaxed);
    let fault = PeerFault::Ring { count: 12, free: 4 };
    assert_eq!(first.poll_injected(9, |_| ()), Err(fault));
    assert_eq!(first.poll(0, 9, |_| panic!("believed after a lie")), Err(fault));
    assert_eq!(first.reclaim(|_| ()), 3);
    // It is in a slot, which is right when the Master looks again.
    let (mut second, model) = master();
    let head = model.head(Ring::Primary, 0);
    spoil(&model, |head| head.len = 0);
    give_back(&model, 5);
    let fault = second.poll(0, 9, |_| ()).expect_err("a fault");
    model.set_head(Ring::Primary, 0, head);
    assert_eq!(second.poll(0, 9, |_| panic!("believed after a lie")), Err(fault));
    assert_eq!(second.reclaim(|_| ()), 5);
}

/// One thing that a hostile process writes.
#[derive(Debug, Clone)]
enum Scribble {
    Word(u8, u32),
    Head(u8, u8, [u64; 2]),
    Bytes(u8, u8, u16, u8),
}

fn scribble() -> impl Strategy<Value = Scribble> {
    let near = prop_oneof![0u32..12, Just(u32::MAX), any::<u32>()];
    let word = prop_oneof![
        any::<u64>(),
        // A head that is nearly right: start 64, a short length, any flags and output.
        (0u64..8, 0u64..3, 0u64..200)
            .prop_map(|(flags, output, len)| { 64 | len << 16 | flags << 32 | output << 40 }),
    ];
    prop_oneof![
        3 => (0u8..Word::COUNT as u8, near).prop_map(|(word, value)| Scribble::Word(word, value)),
        3 => (0u8..3, any::<u8>(), [word.boxed(), any::<u64>().boxed()])
            .prop_map(|(ring, slot, words)| Scribble::Head(ring, slot, words)),
        1 => (0u8..3, any::<u8>(), any::<u16>(), any::<u8>())
            .prop_map(|(ring, slot, at, byte)| Scribble::Bytes(ring, slot, at, byte)),
    ]
}

fn write(model: &Model, scribble: &Scribble) {
    match *scribble {
        Scribble::Word(word, value) => {
            model.word(Word::ALL[usize::from(word)]).store(value, Ordering::Relaxed)
        }
        Scribble::Head(ring, slot, words) => {
            model.set_head(
                Ring::ALL[usize::from(ring)],
                u32::from(slot),
                SlotHead::from_words(words),
            );
        }
        Scribble::Bytes(ring, slot, at, byte) => {
            let at = u32::from(at) % FEW.frame_len();
            model.copy_in(
                Location::Slot(Ring::ALL[usize::from(ring)], u32::from(slot)),
                at,
                &[byte],
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 4_000 }))]

    /// Whatever stands in shared memory: tokens are within bounds, every slot is handed back or
    /// reclaimed exactly once, and a fault is for good.
    #[test]
    fn no_scribble_is_believed(
        scribbles in prop::collection::vec(prop::collection::vec(scribble(), 0..12), 1..8),
    ) {
        let (mut master, model) = master();
        let bell = Silent::default();
        let (mut put, mut back) = (5, 0);
        for round in &scribbles {
            round.iter().for_each(|scribble| write(&model, scribble));
            let result = master.poll(0, 100, |token| {
                assert!(token.output < 2 && token.len() <= FEW.frame_len());
                let mut bytes = vec![0; token.len() as usize];
                token.copy_to(&mut bytes);
                back += u32::from(!matches!(token.origin, thruway_exchange::Origin::Aux(_)));
            });
            let injected = master.poll_injected(100, |token| assert!(token.output < 2));
            if let Err(fault) = result {
                prop_assert_eq!(injected, Err(fault));
                prop_assert_eq!(master.fault(), Some(fault));
            }
            put += u32::from(master.put(SlotTag::NONE, &[7; 60]).is_ok());
            master.publish(&bell, 0);
            prop_assert!(master.occupancy() <= FEW.slots);
        }
        prop_assert_eq!(back + master.reclaim(|_| ()), put);
    }
}
