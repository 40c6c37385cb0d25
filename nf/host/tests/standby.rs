//! How soon a killed function is back. Alone in its program, for it counts processes.

mod peer;

use std::time::{Duration, Instant};

use peer::spec;
use thruway_nf_host::{Function, FunctionSpec};

const SOON: Duration = Duration::from_secs(20);

/// Not a test: the isolated function itself, see `peer`.
#[test]
fn role() {
    peer::play();
}

/// How long it takes from each of some kills until the next generation can be used, ascending.
fn back_after(standby: bool, kills: u32) -> Vec<Duration> {
    let function = Function::start(FunctionSpec { standby, ..spec("honest") });
    let function = function.unwrap_or_else(|error| panic!("{error}"));
    let mut took = Vec::new();
    for kill in 0..kills {
        let generation = function.generation();
        // As long as it takes to have another one ready, on a machine with other work.
        std::thread::sleep(Duration::from_millis(150));
        let pid = function.status().pid.and_then(rustix::process::Pid::from_raw);
        let begin = Instant::now();
        let signal = rustix::process::Signal::KILL;
        rustix::process::kill_process(pid.expect("it runs"), signal).unwrap();
        while function.generation() <= generation {
            assert!(begin.elapsed() < SOON, "kill {kill}: {:?}", function.status());
            std::thread::sleep(Duration::from_micros(50));
        }
        took.push(begin.elapsed());
    }
    assert_eq!(function.status().restarts, u64::from(kills));
    took.sort();
    took
}

#[test]
fn a_killed_function_is_back_at_once_again_and_again() {
    const KILLS: u32 = 20;
    let (with, without) = (back_after(true, KILLS), back_after(false, KILLS));
    let text = |took: &[Duration]| {
        let at = |share: usize| took[took.len() * share / 100];
        format!("{:?} at least, {:?} half, {:?} at most", at(0), at(50), took[took.len() - 1])
    };
    println!("back after a kill: {}; without standby: {}", text(&with), text(&without));
    // The machine may be busy: what it does not keep from running tells.
    assert!(with[KILLS as usize / 4] < Duration::from_millis(10), "{with:?}");
    // No process is left, neither the last one nor the one that waited.
    let children = rustix::process::waitpid(None, rustix::process::WaitOptions::NOHANG);
    assert_eq!(children.unwrap_err(), rustix::io::Errno::CHILD);
    // No pause grows from kill to kill, with or without.
    assert!(without[KILLS as usize / 2] < Duration::from_millis(300), "{without:?}");
}
