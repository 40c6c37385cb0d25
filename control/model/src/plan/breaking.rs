//! What ends first when rates rise, and how much can be served at most.

use serde::Serialize;

use super::problem::Problem;
use super::search::{Effort, solve};
use super::usage::{Limit, Placement, SLACK, Usage};

/// When something ends, with the placement as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Break {
    /// How many times the planned rate that is.
    pub factor: f64,
    /// What is used up first.
    pub limit: Limit,
}

/// Rates are raised up to so many times.
const FACTOR_MAX: f64 = 1e9;
/// Halvings of an interval in which a rate lies.
const HALVINGS: u32 = 60;

/// What is used up beyond its whole, if anything; the most loaded first.
fn broken(problem: &Problem, placement: &Placement) -> Option<Limit> {
    let hosts = placement.hosts.iter().enumerate().filter(|(_, tasks)| !tasks.is_empty());
    let all = hosts
        .flat_map(|(host, tasks)| Usage::of(problem, host, tasks).pressures(problem, host, 1.0));
    let over = all.filter(|(_, pressure)| *pressure > 1.0 + SLACK);
    over.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(limit, _)| limit)
}

/// The factor at which `rates` of the problem break it, by binary search.
fn first_break(placement: &Placement, rates: impl Fn(f64) -> Problem) -> Option<Break> {
    let at = |factor| broken(&rates(factor), placement);
    let (mut fine, mut over) = (1.0, 1.0);
    let mut limit = loop {
        if over > FACTOR_MAX {
            return None;
        }
        match at(over) {
            Some(limit) => break limit,
            None => (fine, over) = (over, over * 2.0),
        }
    };
    for _ in 0..HALVINGS {
        let middle = (fine + over) / 2.0;
        match at(middle) {
            Some(found) => (limit, over) = (found, middle),
            None => fine = middle,
        }
    }
    Some(Break { factor: fine, limit })
}

/// What ends first when all rates rise together.
pub(super) fn all_rising(problem: &Problem, placement: &Placement) -> Option<Break> {
    first_break(placement, |factor| problem.at_rates(factor))
}

/// What ends first when the rate of one chain rises.
pub(super) fn one_rising(problem: &Problem, placement: &Placement, chain: usize) -> Option<Break> {
    first_break(placement, |factor| {
        let mut raised = problem.clone();
        raised.demands[chain].chain.rate *= factor;
        raised
    })
}

/// Why no more can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Latency bounds.
    Latency,
    /// Memory of hosts.
    Memory,
    /// Ports.
    Links,
    /// Chains that may not be spread over cores.
    NotParallel,
    /// Chains that share no core.
    OwnCores,
    /// Chains that stay on one socket.
    OneSocket,
    /// Chains that run on one named host.
    Pinned,
    /// Cycles: the cores that there are.
    Cycles,
}

impl Reason {
    const RELAXABLE: [Reason; 7] = [
        Reason::Latency,
        Reason::Memory,
        Reason::Links,
        Reason::NotParallel,
        Reason::OwnCores,
        Reason::OneSocket,
        Reason::Pinned,
    ];

    /// In words, with the remedy.
    pub fn about(self) -> &'static str {
        match self {
            Reason::Latency => "the latency bound: allow more, or take smaller bursts",
            Reason::Memory => "the memory of the hosts: give more",
            Reason::Links => "the ports of the hosts: their bits a second, or they lack the port",
            Reason::NotParallel => "flows may not be spread over cores (parallel = false)",
            Reason::OwnCores => "no core is shared (share_core = false)",
            Reason::OneSocket => "packets stay on one socket (cross_sockets = false)",
            Reason::Pinned => "it runs on one host only (host = ...)",
            Reason::Cycles => "the cycles of the cores: give more cores, or less headroom",
        }
    }

    /// The problem without this.
    fn relaxed(self, problem: &Problem, chains: &[usize]) -> Problem {
        let mut relaxed = problem.clone();
        if self == Reason::Memory {
            relaxed.hosts.iter_mut().for_each(|host| host.memory = f64::INFINITY);
        }
        for chain in chains {
            let demand = &mut relaxed.demands[*chain];
            match self {
                Reason::Latency => demand.chain.latency_us = None,
                Reason::Links => demand.chain.link = None,
                Reason::NotParallel => demand.parallel = true,
                Reason::OwnCores => demand.chain.share_core = true,
                Reason::OneSocket => demand.chain.cross_sockets = true,
                Reason::Pinned => demand.pinned = None,
                Reason::Memory | Reason::Cycles => {}
            }
        }
        relaxed
    }
}

/// The most that can be served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Most {
    /// Share of the planned rates for which there is a placement; 0 if there is none for any.
    pub factor: f64,
    /// Whether it is known that there is none for more (by a hundredth).
    pub proved: bool,
    /// Why not more.
    pub reason: Reason,
    /// The chains that it concerns; none if all.
    pub chains: Vec<String>,
}

/// How long each question is thought about.
const EFFORT: Effort = Effort { steps: 40_000, any: true };
/// Rates so small that cycles cannot be what is missing.
const FACTOR_LEAST: f64 = 1e-6;
/// Halvings after which the share is known to a thousandth.
const SHARE_HALVINGS: u32 = 10;
/// How far beyond the most the reason is looked for.
const BEYOND: f64 = 1.02;

/// How much of a problem that has no placement can be served, and why not more.
pub(super) fn most(problem: &Problem) -> Most {
    let served = |factor: f64| solve(&problem.at_rates(factor), EFFORT);
    let mut proved = true;
    let (mut fine, mut over) = (0.0, 1.0);
    let least = served(FACTOR_LEAST);
    if least.best.is_some() {
        for _ in 0..SHARE_HALVINGS {
            let middle = (fine + over) / 2.0;
            let solved = served(middle);
            match solved.best.is_some() {
                true => fine = middle,
                false => (over, proved) = (middle, proved && solved.proved),
            }
        }
    } else {
        (over, proved) = (FACTOR_LEAST, least.proved);
    }
    // What was not proved may hold at one rate and not at a higher one: then the rates as they are.
    let beyond = (over * BEYOND).min(1.0);
    let beyond = if served(beyond).best.is_some() { 1.0 } else { beyond };
    let (reason, chains) = reason(&problem.at_rates(beyond));
    Most { factor: fine, proved, reason, chains }
}

/// The first restriction without which there is a placement, and the chains that suffice.
fn reason(problem: &Problem) -> (Reason, Vec<String>) {
    let all: Vec<usize> = (0..problem.demands.len()).collect();
    let frees = |reason: Reason, chains: &[usize]| {
        solve(&reason.relaxed(problem, chains), EFFORT).best.is_some()
    };
    let found = Reason::RELAXABLE.into_iter().find(|reason| frees(*reason, &all));
    let Some(reason) = found else { return (Reason::Cycles, Vec::new()) };
    if reason == Reason::Memory {
        return (reason, Vec::new());
    }
    let alone = all.iter().filter(|chain| frees(reason, &[**chain]));
    (reason, alone.map(|chain| problem.demands[*chain].chain.name.clone()).collect())
}
