//! Chains that a manager keeps: its death costs no packet, and what it left is adopted.

mod browser;
mod drain;
mod functions;
pub mod keeper;
mod on_demand;
mod page;
mod replicas;
mod reports;
mod scrubbing;
mod storm;
mod swap;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use thruway_manager::ChainSpec;

use crate::control::Client;
use crate::process::{LIMIT, wait_for};
use keeper::{Lab, signal, spec};

/// A chain that sends back what comes at a Unix socket.
fn echo(lab: &Lab, name: &str) -> (ChainSpec, PathBuf) {
    let path = lab.dir.path().join(format!("{name}.echo"));
    let text =
        format!("s :: Socket(UNIX, {}) -> c :: Counter -> q :: Queue(1000) -> s", path.display());
    (spec(text), path)
}

/// A connection to such a chain.
fn connect(path: &Path) -> UnixStream {
    let stream = wait_for("the socket", || UnixStream::connect(path).ok());
    stream.set_read_timeout(Some(LIMIT)).expect("a time above zero");
    stream
}

/// Sends numbered words, each after the answer to the one before, while `goes_on`; how many.
fn talk(mut stream: UnixStream, goes_on: impl Fn() -> bool) -> u64 {
    let mut number = 0u64;
    while goes_on() {
        stream.write_all(&number.to_be_bytes()).expect("it is read");
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes).expect("an answer");
        assert_eq!(u64::from_be_bytes(bytes), number);
        number += 1;
    }
    number
}

#[test]
fn a_data_plane_that_dies_is_back_with_what_it_ran() {
    let mut lab = Lab::new(None);
    let (one, path) = echo(&lab, "one");
    lab.set("one", one);
    lab.set("two", spec("RatedSource(RATE 100) -> c :: Counter -> Discard"));
    lab.converge();
    let (pid, other) = (lab.is_up("one"), lab.is_up("two"));
    assert_eq!(talk(connect(&path), counted(100)), 100);
    let session = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let field = |nth: usize| session.rsplit_once(')').map(|(_, rest)| rest.split(' ').nth(nth));
    assert_eq!(field(4).flatten(), Some(pid.to_string().as_str()), "its own session: {session}");
    assert_eq!(field(5).flatten(), Some("0"), "no terminal: {session}");
    let opened = |fd| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).expect("it is open");
    assert_eq!(opened(0), Path::new("/dev/null"));
    assert!(opened(1).ends_with("one/log") && opened(2).ends_with("one/log"), "{:?}", opened(1));
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
    let names = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    assert!(!names.into_iter().any(|name| name.ends_with("chains")), "the manager's lock");

    let begin = Instant::now();
    signal(pid, Signal::KILL);
    let again = wait_for("another process", || lab.status("one").pid.filter(|now| *now != pid));
    assert_eq!(talk(connect(&path), counted(1)), 1);
    println!("killed, and {:?} later it carries again", begin.elapsed());
    lab.is_up("one");
    assert_eq!(talk(connect(&path), counted(100)), 100);
    assert_eq!(lab.status("one").restarts, 1);
    // Whoever looks again when an event comes has seen it ready twice.
    // (On a busy machine it may not have answered for a while, and then again.)
    let events = lab.events();
    let count = |name: &str| events.iter().filter(|event| *event == name).count();
    let ready = count("one Answers");
    assert!((2..=2 + count("one NoAnswer")).contains(&ready), "{events:?}");
    assert_eq!(lab.is_up("two"), other);

    // It dies while there is no manager.
    lab.kill();
    signal(again, Signal::KILL);
    lab.begin(None);
    lab.keeper().answer();
    lab.converge();
    assert_ne!(lab.is_up("one"), again);
    assert_eq!(lab.is_up("two"), other);
    assert_eq!(talk(connect(&path), counted(100)), 100);
    assert_eq!(lab.status("one").restarts, 2);
    assert!(lab.unknown().is_empty());
}

/// True so many times.
fn counted(times: u64) -> impl Fn() -> bool {
    let left = std::cell::Cell::new(times);
    move || left.replace(left.get().saturating_sub(1)) > 0
}

#[test]
fn a_configuration_that_cannot_run_is_told_and_a_good_one_is_tried_at_once() {
    let mut lab = Lab::new(None);
    lab.set("bad", spec("Idle -> Nosuch -> Discard"));
    lab.converge();
    let message = lab.wait_reason("bad", "Ready", "CrashLoop");
    assert!(message.contains("Nosuch") && message.contains("exit code 1"), "{message}");
    assert!(!lab.condition("bad", "UpToDate").0);
    assert_eq!(lab.status("bad").observed_generation, 0);
    lab.set("bad", spec("Idle -> Discard"));
    lab.converge();
    lab.is_up("bad");
    let bad = ChainSpec { threads: Some(0), ..spec("Idle -> Discard") };
    lab.set("worse", bad);
    lab.converge();
    let message = lab.wait_reason("worse", "Ready", "CrashLoop");
    assert!(message.contains("--threads"), "{message}");
}

#[test]
fn a_mute_data_plane_holds_up_no_other() {
    let mut lab = Lab::new(None);
    let (mute, path) = echo(&lab, "mute");
    lab.set("mute", mute.clone());
    lab.set("other", spec("Idle -> a :: Discard"));
    lab.converge();
    let pid = lab.is_up("mute");
    lab.is_up("other");
    signal(pid, Signal::STOP);
    lab.set("mute", ChainSpec { configuration: mute.configuration + "; Idle -> Discard", ..mute });
    lab.set("other", spec("Idle -> b :: Discard"));
    lab.converge();
    lab.is_up("other");
    assert_eq!(Client::unix(&lab.socket("other")).read("b.class"), "Discard");
    // A manager that adopts it is not held up either.
    lab.kill();
    lab.begin(None);
    lab.keeper().answer();
    lab.converge();
    lab.is_up("other");
    assert!(!lab.condition("mute", "UpToDate").0);
    signal(pid, Signal::CONT);
    assert_eq!(lab.is_up("mute"), pid);
    assert_eq!(talk(connect(&path), counted(10)), 10);
}

#[test]
fn managers_of_twenty_chains_at_rest_cost_next_to_nothing() {
    let mut lab = Lab::new(None);
    let names: Vec<String> = (0..20).map(|number| format!("chain{number}")).collect();
    names.iter().for_each(|name| lab.set(name, spec("Idle -> Discard")));
    lab.converge();
    for name in &names {
        lab.is_up(name);
    }
    let keeper = lab.keeper().pid();
    let (begin, before) = (Instant::now(), processor_ns(keeper));
    // The work of ten seconds and of ten checks of every chain is in it.
    std::thread::sleep(Duration::from_secs(11));
    let spent = processor_ns(keeper) - before;
    let share = spent as f64 / begin.elapsed().as_nanos() as f64;
    println!(
        "20 chains at rest: {:.3} % of a core, {} KiB",
        100.0 * share,
        crate::process::resident_kib(keeper)
    );
    // The goal is of the optimised program.
    let most = if cfg!(debug_assertions) { 0.01 } else { 0.005 };
    assert!(share < most, "{:.3} % of a core", 100.0 * share);
}

/// Processor time of all threads of a process (`/proc/PID/task/TID/schedstat`, first field).
fn processor_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let spent = tasks.map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).expect("it runs");
        text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).expect("a number")
    });
    spent.sum()
}
