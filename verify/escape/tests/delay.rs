//! A function delays nobody but itself, whatever it does to what it shares with its host.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thruway_exchange::Arena;
use thruway_hostile::storm::spec;
use thruway_hostile::watch::{Watched, watch};
use thruway_nf_host::{FunctionSpec, Isolation, Measure, allowed_calls};

fn role(role: &[&str]) -> FunctionSpec {
    let words = [&["role"], role].concat();
    spec(Path::new(env!("CARGO_BIN_EXE_escape")), &words)
}

/// Serves a function in this role, and an honest one, for so long; holds the promises.
#[track_caller]
fn hold(hostile: FunctionSpec, time: Duration) -> Watched {
    let watched = watch(hostile, role(&["neighbour"]), time).expect("both start");
    println!("{watched}");
    assert!(watched.report.neighbour > 100, "the neighbour goes on: {watched}");
    assert!(!watched.is_held_up(), "its host waits for it: {watched}");
    watched
}

#[test]
fn a_function_that_blocks_what_it_was_given_does_not_stop_its_host() {
    hold(role(&["freeze"]), Duration::from_secs(3));
}

/// Not by the filter alone: nothing that the host waits at is an open file of the function's.
#[test]
fn nor_does_it_without_the_filter() {
    let mut hostile = role(&["freeze"]);
    hostile.order.isolation = Isolation::Relaxed;
    hostile.order.omit = vec![Measure::Seccomp];
    hold(hostile, Duration::from_secs(3));
}

/// Random calls with random arguments, the same each time: `THRUWAY_ESCAPE_SEED` for others,
/// `THRUWAY_ESCAPE_SECONDS` for longer.
#[test]
fn no_system_call_delays_the_host() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
    };
    let seed = number("THRUWAY_ESCAPE_SEED", 20_261_123).to_string();
    let time = Duration::from_secs(number("THRUWAY_ESCAPE_SECONDS", 10));
    let numbers: Vec<String> = allowed_calls().map(|(_, call)| call.to_string()).collect();
    let words: Vec<&str> =
        ["fuzz", &seed].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let mut hostile = role(&words);
    hostile.sessions = 1;
    let arena = Arc::new(Arena::create(8, 1).expect("a page"));
    hostile.arena = Some(Arc::clone(&arena));
    hold(hostile, time);
    let fd = arena.fd().try_clone_to_owned().expect("a descriptor");
    let mut scratch = Arena::open(fd, 8, 1).expect("its own");
    let bytes = scratch.session(0).expect("the first").try_into().expect("eight");
    let calls = u64::from_le_bytes(bytes);
    println!("{calls} system calls");
    assert!(calls > 1_000 * time.as_secs(), "{calls}");
}
