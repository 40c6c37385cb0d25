//! A function delays nobody but itself, whatever it does to what it shares with its host.

use std::path::Path;
use std::time::Duration;

use thruway_hostile::storm::spec;
use thruway_hostile::watch::{GAP_MAX, Watched, watch};
use thruway_nf_host::{FunctionSpec, Isolation, Measure};

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
    assert!(watched.longest < watched.control + GAP_MAX, "its host waits for it: {watched}");
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
