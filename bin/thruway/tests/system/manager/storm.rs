//! Managers that are killed at random moments while packets flow.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use thruway_random::Random;
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::keeper::{Lab, signal, spec};
use super::{connect, echo, talk};
use crate::control::Client;
use crate::process::{Ending, wait_for};

/// Managers that are killed.
const KILLS: u64 = 100;
/// Bytes of a word of [`talk`].
const WORD: u64 = 8;

/// One manager's life: it adopts, hears of a chain that comes, changes and goes, and is
/// killed.
fn life(lab: &mut Lab, round: u64, dice: &mut Random) {
    if round.is_multiple_of(5) {
        lab.unset("passing");
    } else {
        lab.set("passing", spec(format!("Idle -> n{round} :: Discard")));
    }
    // Mostly its process is to be started again.
    if !round.is_multiple_of(3) {
        lab.processes_of("passing").into_iter().for_each(|pid| signal(pid, Signal::KILL));
    }
    lab.begin(None);
    lab.declare();
    // At any moment from its start on, or in the milliseconds in which it starts a process.
    let span = match round.is_multiple_of(2) {
        true => 60_000,
        false => {
            lab.keeper().answer();
            8_000
        }
    };
    std::thread::sleep(Duration::from_micros(dice.below(span)));
    lab.kill();
}

#[test]
fn a_hundred_kills_of_the_manager_cost_no_packet() {
    let mut lab = Lab::new(None);
    let chains = ["one", "two"].map(|name| (name, echo(&lab, name)));
    for (name, (spec, _)) in &chains {
        lab.set(name, spec.clone());
    }
    lab.converge();
    let pids = chains.each_ref().map(|(name, _)| lab.is_up(name));
    lab.kill();
    let over = AtomicBool::new(false);
    let mut dice = Random::from_seed(19);
    let begin = Instant::now();
    let words = std::thread::scope(|scope| {
        let goes_on = || !over.load(Ordering::Acquire);
        let talks = chains.each_ref().map(|(_, (_, path))| {
            let stream = connect(path);
            scope.spawn(move || talk(stream, goes_on))
        });
        // Whatever comes of it, the threads end.
        let ending = Ending(&[&over]);
        (0..KILLS).for_each(|round| life(&mut lab, round, &mut dice));
        drop(ending);
        talks.map(|talk| talk.join().expect("every word came back"))
    });
    println!("{KILLS} kills in {:?}, {words:?} words", begin.elapsed());

    lab.begin(None);
    lab.keeper().answer();
    lab.set("passing", spec("Idle -> last :: Discard"));
    lab.converge();
    for (at, (name, _)) in chains.iter().enumerate() {
        assert_eq!(lab.is_up(name), pids[at], "{name} is the same process");
        assert_eq!(lab.status(name).restarts, 0);
        let bytes = Client::unix(&lab.socket(name)).number("c.byte_count");
        assert_eq!(bytes, WORD * words[at], "{name} counts each word once");
        assert!(words[at] > 100, "{words:?}");
    }
    let passing = lab.is_up("passing");
    assert_eq!(Client::unix(&lab.socket("passing")).read("last.class"), "Discard");
    // Each chain has one process, whenever its manager was killed.
    let mut all = [pids[0], pids[1], passing];
    all.sort_unstable();
    wait_for("the last of those that lost their socket to another", || {
        let mut found = lab.processes();
        found.sort_unstable();
        (found == all).then_some(())
    });
    assert!(lab.unknown().is_empty());
    for name in ["one", "two", "passing"] {
        lab.unset(name);
    }
    lab.converge();
    wait_for("their ends", || lab.processes().is_empty().then_some(()));
    let chains = lab.dir.path().join("state/chains");
    let left = || std::fs::read_dir(&chains).map(|entries| entries.count());
    wait_for("their directories' ends", || (left().ok()? == 0).then_some(()));
}
