//! `thruway-bench isolated`: what isolation costs in the engine: chains of functions in one
//! process, and the same functions each in a process of its own.
//!
//! The real engine, the real elements as users write them, real processes in their sandboxes. The
//! function is a `Counter`, or a program of the function library that counts alike, so that what is
//! measured is the path there and back. Rows are processor time of **all** processes; the step of a
//! row is the isolation cost of one more function. The report `costs` attributes it to threads,
//! and counts sleeps; `latency` has the latency of packets.

mod chain;
mod costs;
mod latency;
mod subject;

use super::case::{Case, Goal, Suite};
use std::path::Path;

use chain::{Chain, Mode, Where};
use subject::Running;

/// `thruway-bench isolated`.
pub const SUITE: Suite = Suite {
    name: "isolated",
    about: "chains of functions in one process, isolated, and in a trust group",
    cases,
    reports: &[("costs", costs::report), ("latency", latency::report)],
};

/// Functions of a chain.
const COUNTS: [usize; 5] = [1, 2, 3, 5, 10];
/// Bytes of a packet.
const LENGTHS: [usize; 3] = [60, 512, 1400];

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for count in COUNTS {
        for len in LENGTHS {
            let chain = |mode| Chain::sleeping(mode, count, len, Where::Apart);
            all.push(case(chain(Mode::Inside), None));
            for mode in Mode::APART {
                all.push(case(chain(mode), goal(mode, count, len)));
            }
        }
    }
    // Against the same function as a process; only where there is an image.
    if Path::new(chain::IMAGE).exists() {
        for len in LENGTHS {
            let [machine, process] =
                [Mode::Machine, Mode::Nf].map(|mode| Chain::sleeping(mode, 1, len, Where::Apart));
            all.push(Case { baseline: Some(process.name()), ..case(machine, None) });
        }
    }
    for (placement, mode) in [Where::Together, Where::Anywhere].into_iter().flat_map(both_modes) {
        for count in [1, 3] {
            all.push(case(Chain::sleeping(mode, count, 60, placement), None));
        }
    }
    all
}

fn both_modes(placement: Where) -> [(Where, Mode); 2] {
    [(placement, Mode::Isolate), (placement, Mode::Nf)]
}

/// What one more isolated function may cost, where that was promised.
fn goal(mode: Mode, count: usize, len: usize) -> Option<Goal> {
    let ns = match (mode, count, len) {
        (Mode::Isolate, 1, 60) => 50.0,
        (Mode::Isolate, 3, 60) => 130.0 / 3.0,
        (Mode::Nf, 1, 60) => 40.0,
        (Mode::Nf, 3, 60) => 110.0 / 3.0,
        (Mode::Group | Mode::NfGroup, _, 60) => 30.0,
        _ => return None,
    };
    Some(Goal::StepNs(ns))
}

fn case(chain: Chain, goal: Option<Goal>) -> Case {
    let baseline = (chain.mode != Mode::Inside)
        .then(|| Chain { mode: Mode::Inside, placement: Where::Apart, ..chain }.name());
    Case {
        name: chain.name(),
        goal,
        baseline,
        steps: chain.count as u32,
        payload: None,
        is_long: chain.count > 3 || chain.len > 60,
        set_up: Box::new(move |workspace| Ok(Box::new(Running::start(chain, &workspace.cores)?))),
    }
}
