//! Misbehaviour of one kind at a time, by name, for ever.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thruway_exchange::{Attached, FutexWaiter, Mapped, Outgoing, Storage as _, attach, rest};
use thruway_nf_abi::features::Offer;
use thruway_nf_abi::message::{Head, Hello, Kind, Wake};
use thruway_nf_abi::{Word, flag};
use thruway_sync::atomic::Ordering;

use crate::{Dice, worker};

/// A function, how it misbehaves in one turn, and whether it also works and answers.
type Mode = (&'static str, fn(&mut Attached, &mut Dice), Otherwise);

/// What a function does between two turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// Gives packets back unchanged, answers requests, sleeps when there are none.
    Works,
    /// The same but for answers.
    WorksMutely,
    /// Gives packets back and never sleeps.
    Spins,
    /// Nothing else.
    Nothing,
}
use Otherwise::{Nothing, Spins, Works, WorksMutely};

/// All of them.
const MODES: &[Mode] = &[
    ("mute", |_, _| (), WorksMutely),
    ("keeps-all-and-beats", |host, _| host.control.beat(), Nothing),
    ("keeps-all-and-answers", |host, _| answer(host, b"?"), Nothing),
    ("just-in-time", just_in_time, Nothing),
    ("spins", |_, _| std::hint::spin_loop(), Nothing),
    ("sleeps", |_, _| std::thread::sleep(Duration::from_secs(60)), Nothing),
    ("slow", |_, _| std::thread::sleep(Duration::from_millis(20)), Spins),
    ("late-answers", late_answers, WorksMutely),
    ("long-answers", |host, _| answer(host, &[b'x'; 32 << 10]), Spins),
    ("wrong-answers", |host, dice| reply(host, dice.number(), b"5"), Works),
    ("hellos", |host, _| send(host, Kind::Hello, 0, &[0; 200]), Spins),
    ("chatter", |host, dice| worker::send_noise(host, dice), Spins),
    ("empty-messages", |host, dice| send(host, Kind::Reply, dice.number(), &[]), Nothing),
    ("output", output, Spins),
    ("exits", |_, _| std::process::exit(3), Works),
    ("aborts", |_, _| std::process::abort(), Works),
    ("exits-with-packets", |host, _| exit_with_packets(host), Nothing),
    ("words", |host, dice| worker::words(&memory(host), dice), Spins),
    ("heads", |host, dice| worker::heads(&memory(host), dice, 5_000), Spins),
    ("race", race, Nothing),
    ("scribble", |host, dice| worker::scribble(&memory(host), dice), Spins),
    ("control-region", |host, dice| worker::control(host, dice), Spins),
    ("fill", |host, dice| worker::fill(&memory(host), dice), Spins),
    ("ahead", |host, dice| worker::ahead(&memory(host), dice), Spins),
    ("chain", |host, dice| worker::chain_without_end(&memory(host), dice), Spins),
    ("injects", |host, dice| worker::flood(&memory(host), dice), Spins),
    ("near-misses", |host, dice| worker::near_misses(&memory(host), dice), Spins),
    ("emits", |host, _| emit(host), Nothing),
    ("drops", |host, _| drop_all(host), Nothing),
    ("wakes", |host, _| wake(host), Nothing),
    ("memory", memory_hog, Works),
    ("threads", |_, _| drop(std::thread::Builder::new().spawn(spin)), Works),
    ("stale-status", |host, dice| host.control.status().store(dice.below(5), RELAXED), Spins),
];

const RELAXED: Ordering = Ordering::Relaxed;

/// The names of all modes.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODES.iter().map(|(name, ..)| *name)
}

/// Attaches and misbehaves.
///
/// # Errors
/// When there is no mode of that name, or it cannot attach.
pub fn play(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mode = MODES.iter().find(|(mode, ..)| *mode == name);
    let (_, turn, otherwise) = mode.ok_or_else(|| format!("there is no mode '{name}'"))?;
    let (offer, name) = (Offer::ALL, Hello::name_from(name));
    let hello = Hello { wake: Wake::Futex, outputs: 1, scratch_len: 0, stream: 0, offer, name };
    let mut host = attach(&hello)?;
    host.ready()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut dice = Dice::new(now.as_nanos() as u64);
    loop {
        if *otherwise != Nothing {
            work(&mut host, *otherwise);
        }
        turn(&mut host, &mut dice);
    }
}

fn work(host: &mut Attached, how: Otherwise) {
    let link = &mut host.links[0];
    let waiting = link.worker.waiting();
    link.worker.advance(waiting);
    link.flush();
    host.control.beat();
    if how != WorksMutely {
        answer(host, b"well");
    }
    if how != Spins && waiting == 0 {
        let waiter = FutexWaiter(host.control.clone());
        let link = &mut host.links[0];
        rest(&waiter, Some(Duration::from_millis(50)), || link.worker.has_work());
    }
}

fn memory(host: &Attached) -> Mapped {
    // JUSTIFICATION: lying is what this process is for.
    // SAFETY: no reference to a frame lives across a call of the modes that use it.
    unsafe { host.links[0].worker.storage() }.clone()
}

fn answer(host: &Attached, text: &[u8]) {
    while let Ok(Some(message)) = host.socket.try_receive() {
        reply(host, message.head.id, text);
    }
}

fn reply(host: &Attached, id: u32, text: &[u8]) {
    send(host, Kind::Reply, id, text);
}

fn send(host: &Attached, kind: Kind, id: u32, text: &[u8]) {
    // The host may have closed the socket: then it is about to kill this process.
    let _ = host.socket.try_send(Head::new(kind, id), text);
}

/// One packet each 150 ms: just before a HANG of 200 ms.
fn just_in_time(host: &mut Attached, _dice: &mut Dice) {
    std::thread::sleep(Duration::from_millis(150));
    let link = &mut host.links[0];
    let waiting = link.worker.waiting();
    link.worker.advance(waiting.min(1));
    link.flush();
    host.control.beat();
}

fn late_answers(host: &mut Attached, _dice: &mut Dice) {
    if let Ok(Some(message)) = host.socket.try_receive() {
        std::thread::sleep(Duration::from_millis(150));
        reply(host, message.head.id, b"late");
    }
}

fn output(_host: &mut Attached, _dice: &mut Dice) {
    let _ = std::io::stderr().write_all(&[b'!'; 4096]);
}

fn exit_with_packets(host: &mut Attached) {
    if host.links[0].worker.waiting() > 0 {
        std::process::exit(0);
    }
}

fn race(host: &mut Attached, dice: &mut Dice) {
    let memory = memory(host);
    worker::race(&mut host.links[0].worker, &memory, dice);
}

/// As many packets beside each as the ring takes.
fn emit(host: &mut Attached) {
    let link = &mut host.links[0];
    for _ in 0..link.worker.waiting() {
        for _ in 0..1000 {
            if link.worker.emit(Outgoing { output: 0, fcb: 0 }, [&[9; 1400], &[]]).is_err() {
                break;
            }
        }
        link.worker.advance(1);
    }
    link.flush();
}

fn drop_all(host: &mut Attached) {
    let link = &mut host.links[0];
    for nth in 0..link.worker.waiting() {
        let mut head = link.worker.head(nth);
        head.flags |= flag::DROPPED;
        link.worker.set_head(nth, head);
    }
    let waiting = link.worker.waiting();
    link.worker.advance(waiting);
    link.flush();
}

/// Wakes the Master for each packet and without one.
fn wake(host: &mut Attached) {
    let memory = memory(host);
    let link = &mut host.links[0];
    let waiting = link.worker.waiting();
    link.worker.advance(waiting.min(1));
    memory.word(Word::MasterWaits).store(1, RELAXED);
    // A packet of its own, or nothing is announced.
    let _ = link.worker.inject(Outgoing { output: 0, fcb: 0 }, [&[7; 60], &[]]);
    link.flush();
}

fn memory_hog(_host: &mut Attached, _dice: &mut Dice) {
    std::mem::forget(vec![1_u8; 8 << 20]);
}

fn spin() {
    loop {
        std::hint::spin_loop();
    }
}
