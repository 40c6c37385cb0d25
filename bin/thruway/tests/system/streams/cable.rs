//! Thruway as a mere cable: whatever fails here is not a stream function's fault.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::content::{Edit, WORD};
use super::long::{everything, transfer};
use super::options::{options, windows};
use super::path::{Chain, Faults, Path};
use super::talks::{Talk, hold};
use super::trials::{ALL, SOME, SWAPS};
use crate::process::privileged;
use crate::trials::undergo;

#[test]
fn a_cable() {
    if privileged("a_cable") {
        let path = Path::new(&Chain::CABLE);
        undergo(&path, ALL);
        undergo(&path, SWAPS);
    }
}

#[test]
fn a_rough_cable() {
    if !privileged("a_rough_cable") {
        return;
    }
    let path = Path::new(&Chain { faults: Faults::ROUGH, ..Chain::CABLE });
    undergo(&path, SOME);
    let mut control = path.control();
    for place in ["client/in", "client/out", "server/in", "server/out"] {
        for fault in ["loss.lost", "late.reordered", "twice.repeated", "wait.count"] {
            assert!(control.number(&format!("{place}/{fault}")) > 100, "{place}/{fault}");
        }
        assert_eq!(control.number(&format!("{place}/wait.overflows")), 0);
    }
    undergo(&path, SWAPS);
}

#[test]
fn a_cable_between_all_sorts_of_hosts() {
    if !privileged("a_cable_between_all_sorts_of_hosts") {
        return;
    }
    let path = Path::new(&Chain { faults: Faults::CONGESTED, ..Chain::CABLE });
    options(&path);
    assert!(path.control().number("client/in/ce.packets") > 0, "ECN is in use");
    windows(&path);
}

#[test]
fn a_cable_that_overtakes_and_bursts() {
    if privileged("a_cable_that_overtakes_and_bursts") {
        for faults in [Faults::JITTER, Faults::BURSTS] {
            undergo(&Path::new(&Chain { faults, ..Chain::CABLE }), SOME);
        }
    }
}

#[test]
fn much_over_a_cable() {
    if privileged("much_over_a_cable") {
        transfer(&Chain::CABLE);
        everything(&Chain::CABLE);
    }
}

/// What these tests report of what goes wrong.
#[test]
fn wrong_bytes_and_stuck_connections_are_told() {
    if !privileged("wrong_bytes_and_stuck_connections_are_told") {
        return;
    }
    let told = |path: &Path, len| {
        let talks = vec![Talk::of(1, len)];
        let panic = catch_unwind(AssertUnwindSafe(|| hold(path, talks, 1)));
        *panic.expect_err("it fails").downcast::<String>().expect("a text")
    };
    let mut path = Path::new(&Chain { faults: Faults::LOSS, ..Chain::CABLE });
    path.edits = vec![Edit { word: WORD, with: "LETTUCE" }];
    let said = told(&path, 100_000);
    for words in ["differs", "LETTUCE", WORD, "client, 10.0.0.1:", "server, 10.0.0.1:", "cwnd:"] {
        assert!(said.contains(words), "no '{words}' in {said}");
    }
    path.edits.clear();
    path.patience = Duration::from_millis(400);
    assert_eq!(path.control().ask("WRITE client/in/loss.probability 1").0, 200);
    let said = told(&path, 10);
    for words in ["stuck", "syn-sent", "client/in/loss: ", " lost"] {
        assert!(said.to_lowercase().contains(words), "no '{words}' in {said}");
    }
}

#[test]
fn a_cable_by_packet_sockets() {
    if privileged("a_cable_by_packet_sockets") {
        for faults in [Faults::NONE, Faults::ROUGH] {
            undergo(&Path::new(&Chain { faults, method: "LINUX", ..Chain::CABLE }), SOME);
        }
    }
}
