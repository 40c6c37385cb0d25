//! A function delays nobody but itself, whatever it does to what it shares with its host; and a
//! host or a filter that lets it is found out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thruway_exchange::Arena;
use thruway_hostile::storm::spec;
use thruway_hostile::watch::{Host, Watched, watch};
use thruway_nf_host::{Function, FunctionSpec, Isolation, Measure, allowed_calls};

fn role(role: &[&str]) -> FunctionSpec {
    let words = [&["role"], role].concat();
    spec(Path::new(env!("CARGO_BIN_EXE_escape")), &words)
}

/// The same in a sandbox without the filter.
fn unfiltered(mut function: FunctionSpec) -> FunctionSpec {
    function.order.isolation = Isolation::Relaxed;
    function.order.omit = vec![Measure::Seccomp];
    function
}

/// Serves a function in this role, and an honest one, for so long.
fn see(hostile: FunctionSpec, host: Host, time: Duration) -> Watched {
    let watched = watch(hostile, role(&["neighbour"]), host, time).expect("both start");
    println!("{watched}");
    watched
}

/// The same; holds the promises.
#[track_caller]
fn hold(hostile: FunctionSpec, time: Duration) -> Watched {
    let watched = see(hostile, Host::Careful, time);
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
    hold(unfiltered(role(&["freeze"])), Duration::from_secs(3));
}

/// Even one that has its host trace it ends when it is asked to.
#[test]
fn a_function_that_is_traced_does_not_outlive_its_end() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let function = Function::start(unfiltered(role(&["traced"]))).expect("it starts");
        // Time for it to ask for that.
        std::thread::sleep(Duration::from_millis(300));
        drop(function);
        let _ = done.send(());
    });
    ended.recv_timeout(Duration::from_secs(8)).expect("its host waits for ever");
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// A function that makes random calls with random arguments, the same each time:
/// `THRUWAY_ESCAPE_SEED` for others; `any` at all, or `only` those that the filter allows with some
/// arguments. And where it counts them.
fn fuzzer(which: &str, nth: u64) -> (FunctionSpec, Arc<Arena>) {
    let seed = (number("THRUWAY_ESCAPE_SEED", 20_261_123) + nth).to_string();
    let numbers: Vec<String> = allowed_calls().map(|(_, call)| call.to_string()).collect();
    let numbers = numbers.iter().map(String::as_str);
    let words: Vec<&str> = ["fuzz", &seed, which].into_iter().chain(numbers).collect();
    let mut function = role(&words);
    function.sessions = 1;
    let arena = Arc::new(Arena::create(8, 1).expect("a page"));
    function.arena = Some(Arc::clone(&arena));
    (function, arena)
}

/// Calls that a fuzzer has made.
fn calls(arena: &Arena) -> u64 {
    let fd = arena.fd().try_clone_to_owned().expect("a descriptor");
    let mut scratch = Arena::open(fd, 8, 1).expect("its own");
    let bytes = scratch.session(0).expect("the first").try_into().expect("eight");
    u64::from_le_bytes(bytes)
}

/// For `THRUWAY_ESCAPE_SECONDS`.
#[test]
fn no_system_call_delays_the_host() {
    let time = Duration::from_secs(number("THRUWAY_ESCAPE_SECONDS", 10));
    let (fuzzer, arena) = fuzzer("any", 0);
    let watched = hold(fuzzer, time);
    assert_eq!(watched.report.pages_taken, 0, "{watched}");
    let calls = calls(&arena);
    println!("{calls} system calls");
    assert!(calls > 1_000 * time.as_secs(), "{calls}");
}

/// Longest time in which the fuzzer finds what is wrong on purpose. It takes some ten seconds; with
/// a twentieth of the processors, 60 were too few. The test ends when it is found.
const FOUND: Duration = Duration::from_secs(180);

/// The delay that was: the filter let `fcntl` set flags, and the host read where it trusted in
/// O_NONBLOCK. The fuzzer and the watch find it.
#[test]
fn a_host_that_trusts_in_flags_that_it_shares_is_found() {
    let (fuzzer, arena) = fuzzer("only", 0);
    let watched = see(unfiltered(fuzzer), Host::Trusting, FOUND);
    println!("{} system calls", calls(&arena));
    assert!(watched.is_held_up(), "not found: {watched}");
}

/// The filter prevents it, too.
#[test]
fn the_filter_keeps_flags_from_being_shared() {
    let (fuzzer, _arena) = fuzzer("only", 0);
    let watched = see(fuzzer, Host::Trusting, Duration::from_secs(10));
    assert!(!watched.is_held_up(), "{watched}");
}

/// Without the filter MADV_REMOVE takes pages of the region away; the fuzzer does, the watch sees
/// it, and a careful host is not held up.
#[test]
fn pages_that_the_filter_does_not_keep_are_found_missing() {
    let is_found = (0..3).any(|nth| {
        let (fuzzer, arena) = fuzzer("only", nth);
        let watched = hold(unfiltered(fuzzer), Duration::from_secs(20));
        println!("{} system calls", calls(&arena));
        watched.report.pages_taken > 0
    });
    assert!(is_found, "not found");
}
