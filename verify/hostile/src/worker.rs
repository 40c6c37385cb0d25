//! The two processes: the hostile one and its neighbour.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thruway_exchange::{
    Attached, FutexWaiter, Location, Mapped, Outgoing, Storage, Worker, WorkerLink, attach, rest,
};
use thruway_nf_abi::features::Offer;
use thruway_nf_abi::message::{Head, Hello, Kind, Wake};
use thruway_nf_abi::{Ring, SlotHead, Word, flag};
use thruway_sync::atomic::Ordering;

use crate::Dice;
use crate::storm::{OUTPUTS, mark};

fn hello(name: &str) -> Hello {
    Hello {
        wake: Wake::Futex,
        outputs: OUTPUTS,
        scratch_len: 0,
        stream: 0,
        offer: Offer::ALL,
        name: Hello::name_from(name),
    }
}

/// The honest one: marks every packet, in order, for ever.
///
/// # Errors
/// When it cannot attach.
pub fn neighbour() -> Result<(), Box<dyn std::error::Error>> {
    let mut host = attach(&hello("neighbour"))?;
    host.ready()?;
    let waiter = FutexWaiter(host.control.clone());
    loop {
        let link = &mut host.links[0];
        let waiting = link.worker.waiting();
        for _ in 0..waiting {
            let mut head = link.worker.head(0);
            let (start, len) = (usize::from(head.start), usize::from(head.len));
            mark(&mut link.worker.frame_mut(0, &mut head)[start..][..len]);
            link.worker.advance(1);
        }
        link.flush();
        host.control.beat();
        if waiting == 0 {
            rest(&waiter, None, || link.worker.has_work());
        }
    }
}

/// The hostile one.
///
/// # Errors
/// When it cannot attach.
pub fn hostile() -> Result<(), Box<dyn std::error::Error>> {
    let mut host = attach(&hello("hostile"))?;
    host.ready()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut dice = Dice::new(now.as_nanos() as u64);
    loop {
        for _ in 0..1 + dice.below(3_000) {
            behave(&mut host.links[0], &mut dice);
            host.control.beat();
        }
        for _ in 0..1 + dice.below(3) {
            attack(&mut host, &mut dice);
        }
    }
}

/// What a function may do: change, grow, steer, drop, emit, inject.
fn behave(link: &mut WorkerLink, dice: &mut Dice) {
    let waiting = link.worker.waiting();
    for _ in 0..waiting {
        play_by_the_rules(&mut link.worker, dice);
        link.worker.advance(1);
    }
    if dice.below(8) == 0 {
        // A full ring is an answer, too.
        let _ = link.worker.inject(Outgoing { output: 0, fcb: 0 }, [&[7; 60], &[]]);
    }
    link.flush();
    if waiting == 0 {
        std::thread::yield_now();
    }
}

fn play_by_the_rules(worker: &mut Worker<Mapped>, dice: &mut Dice) {
    let frame_len = worker.layout().shape.frame_len();
    let mut head = worker.head(0);
    match dice.below(8) {
        0 => head.flags |= flag::DROPPED,
        1 => head.output = dice.below(OUTPUTS) as u8,
        2 => {
            head.start = dice.below(frame_len - 1) as u16;
            head.len = 1 + dice.below(frame_len - u32::from(head.start)) as u16;
        }
        3 => worker.frame_mut(0, &mut head).fill(dice.bits() as u8),
        4 => {
            for _ in 0..dice.below(4) {
                let _ = worker.emit(Outgoing { output: 0, fcb: 0 }, [&[9; 70], &[]]);
            }
            // The flag that `emit` set is in the head now.
            return;
        }
        _ => return,
    }
    worker.set_head(0, head);
}

/// One thing that no function may do.
fn attack(host: &mut Attached, dice: &mut Dice) {
    // JUSTIFICATION: lying is what this process is for.
    // SAFETY: no reference to a frame lives across a call of this function or within it.
    let memory = unsafe { host.links[0].worker.storage() }.clone();
    match dice.below(13) {
        0 => words(&memory, dice),
        1 => heads(&memory, dice, 5_000),
        2 => race(&mut host.links[0].worker, &memory, dice),
        3 => scribble(&memory, dice),
        4 => control(host, dice),
        5 => fill(&memory, dice),
        6 => ahead(&memory, dice),
        7 => chain_without_end(&memory, dice),
        8 => flood(&memory, dice),
        9 => send_noise(host, dice),
        10 if dice.below(8) == 0 => std::thread::sleep(Duration::from_secs(60)),
        11 if dice.below(4) == 0 => std::process::abort(),
        _ => near_misses(&memory, dice),
    }
}

pub(crate) fn words(memory: &Mapped, dice: &mut Dice) {
    for _ in 0..1 + dice.below(20) {
        let word = Word::ALL[dice.below(Word::ALL.len() as u32) as usize];
        memory.word(word).store(dice.number(), Ordering::Relaxed);
    }
}

fn any_head(dice: &mut Dice) -> SlotHead {
    let mut head = SlotHead::from_words([dice.bits(), dice.bits()]);
    // Nearly right is worse than quite wrong.
    match dice.below(5) {
        0 => (head.start, head.flags, head.output) = (64, dice.below(8) as u8, 0),
        1 => (head.start, head.len) = (64, dice.below(2_000) as u16),
        2 => (head.start, head.len, head.flags) = (u16::MAX, u16::MAX, 0),
        3 => (head.len, head.flags) = (0, flag::AUX | flag::DROPPED),
        _ => {}
    }
    head
}

pub(crate) fn heads(memory: &Mapped, dice: &mut Dice, count: u32) {
    for _ in 0..count {
        let ring = Ring::ALL[dice.below(3) as usize];
        let slot = dice.below(1 << 16);
        memory.set_head(ring, slot, any_head(dice));
    }
}

/// Gives slots back and changes their heads while the Master reads them.
pub(crate) fn race(worker: &mut Worker<Mapped>, memory: &Mapped, dice: &mut Dice) {
    for _ in 0..200 {
        let waiting = worker.waiting();
        worker.advance(waiting);
        let _ = worker.flush();
        heads(memory, dice, 200);
    }
}

/// Writes anywhere in the link's region: header, indices, heads, frames, padding.
pub(crate) fn scribble(memory: &Mapped, dice: &mut Dice) {
    let region = memory.region();
    for _ in 0..1 + dice.below(20_000) {
        let offset = dice.bits() as usize % (region.len() - 8);
        region.copy_in(offset, &dice.bits().to_le_bytes()).expect("within");
    }
}

/// Writes anywhere in the control region: the wake-up word, commands, counters.
pub(crate) fn control(host: &Attached, dice: &mut Dice) {
    let region = host.control.region();
    for _ in 0..1 + dice.below(5_000) {
        let offset = dice.bits() as usize % (region.len() - 8);
        region.copy_in(offset, &dice.bits().to_le_bytes()).expect("within");
    }
}

pub(crate) fn fill(memory: &Mapped, dice: &mut Dice) {
    let byte = [0x00, 0xff, 0x80, dice.bits() as u8][dice.below(4) as usize];
    let region = memory.region();
    let bytes = vec![byte; region.len()];
    region.copy_in(0, &bytes).expect("within");
}

/// W.prod a little or far past what it was given.
pub(crate) fn ahead(memory: &Mapped, dice: &mut Dice) {
    let slots = memory.layout().shape.slots;
    let by = [1, slots, slots + 1, dice.number()][dice.below(4) as usize];
    memory.word(Word::WorkerProduced).fetch_add(by, Ordering::Relaxed);
}

pub(crate) fn chain_without_end(memory: &Mapped, dice: &mut Dice) {
    let shape = memory.layout().shape;
    for slot in 0..shape.aux_slots {
        let head = SlotHead { start: 64, len: 60, flags: flag::NEXT, ..SlotHead::default() };
        memory.set_head(Ring::Aux, slot, head);
    }
    memory.word(Word::AuxProduced).fetch_add(dice.below(2 * shape.aux_slots), Ordering::Relaxed);
    for slot in 0..shape.slots {
        let mut head = memory.head(Ring::Primary, slot);
        head.flags |= flag::AUX;
        memory.set_head(Ring::Primary, slot, head);
    }
}

/// As many injected packets as the ring takes, faster than the Master can take them.
pub(crate) fn flood(memory: &Mapped, dice: &mut Dice) {
    let shape = memory.layout().shape;
    for slot in 0..shape.injection_slots {
        let head = SlotHead { start: 64, len: 1 + dice.below(1_000) as u16, ..SlotHead::default() };
        memory.set_head(Ring::Injection, slot, head);
    }
    for _ in 0..10_000 {
        let taken = memory.word(Word::InjectionConsumed).load(Ordering::Relaxed);
        memory.word(Word::Injected).store(taken + shape.injection_slots, Ordering::Release);
    }
}

/// Messages out of turn, of any kind and content, and many.
pub(crate) fn send_noise(host: &Attached, dice: &mut Dice) {
    let kinds = [Kind::Hello, Kind::Welcome, Kind::Ready, Kind::Reply, Kind::Error, Kind::Read];
    for _ in 0..1 + dice.below(50) {
        let head = Head {
            features: dice.number(),
            ..Head::new(kinds[dice.below(6) as usize], dice.number())
        };
        let body: Vec<u8> = (0..dice.below(2_000)).map(|_| dice.bits() as u8).collect();
        // The host may have closed the socket: then it is about to kill this process.
        let _ = host.socket.send(head, &body, &[]);
    }
}

/// Heads and bytes that are right, of slots that are the Master's.
pub(crate) fn near_misses(memory: &Mapped, dice: &mut Dice) {
    for _ in 0..1_000 {
        let slot = dice.below(memory.layout().shape.slots);
        let mut head = memory.head(Ring::Primary, slot);
        head.output = dice.below(OUTPUTS + 1) as u8;
        memory.set_head(Ring::Primary, slot, head);
        memory.copy_in(Location::Slot(Ring::Primary, slot), dice.below(500), &[dice.bits() as u8]);
    }
}
