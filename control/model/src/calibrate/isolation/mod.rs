//! Operations of isolated functions: what it costs to hand packets to another process and to take
//! them back, by the engine, by `Nf` and by processes that are functions.
//!
//! Chains of functions run in turn, some on another core than the thread and the same ones on the
//! thread's own. What processes take is counted by the kernel for each of them.

mod chain;
mod fit;

use std::collections::BTreeMap;

use thruway_element::Operation;

pub use chain::Programs;

use super::Summary;
use super::effort::{Effort, Notes};
use super::error::CalibrateError;
use super::steady::{Steadiness, steady};
use crate::hardware::OperationCost;
use chain::{Running, chains};
use fit::{Costs, Round};

/// Operations by name, with functions on cores of their own and on the thread's core.
#[derive(Debug, Default)]
pub struct Measured {
    /// On another core than the thread's; empty where there is none.
    pub apart: BTreeMap<String, OperationCost>,
    /// On the thread's.
    pub shared: BTreeMap<String, OperationCost>,
}

/// Where chains are measured.
#[derive(Debug, Clone, Copy)]
pub struct Cores {
    /// The thread's.
    pub own: usize,
    /// Another one, if there is any.
    pub other: Option<usize>,
    /// Ticks of the time stamp counter in a second.
    pub clock_hz: f64,
}

/// Measures them; functions that cannot be started here are a note, and there are no costs.
pub fn measure(
    (programs, cores): (&Programs, Cores),
    operations: &BTreeMap<String, OperationCost>,
    effort: &Effort,
    notes: &mut Notes<'_>,
) -> Measured {
    let mut on = |cpu: usize, what: &str| {
        notes.progress(&format!("isolated functions on {what}"));
        match costs((programs, cpu), (cores.clock_hz, operations), effort) {
            Ok((costs, steadiness)) => {
                notes.notes.extend(steadiness.note(&format!("isolated functions on {what}")));
                let found = named(&costs, &notes.day);
                note_missing(&found, what, notes);
                found
            }
            Err(why) => {
                notes.add(format!("isolated functions on {what}: not measured: {why}"));
                BTreeMap::new()
            }
        }
    };
    let shared = on(cores.own, "the core of the thread");
    let apart = cores.other.map(|other| on(other, "another core")).unwrap_or_default();
    Measured { apart, shared }
}

/// Runs all chains in turn, round by round.
fn costs(
    on: (&Programs, usize),
    (clock_hz, operations): (f64, &BTreeMap<String, OperationCost>),
    effort: &Effort,
) -> Result<(Costs, Steadiness), CalibrateError> {
    let mut running = Vec::new();
    for chain in chains() {
        running.push((chain, Running::start(chain, on, clock_hz)?));
    }
    for (_, chain) in &mut running {
        // Processes come to their places, rings into caches.
        chain.run(effort.packets / 4)?;
    }
    let measure = || {
        let mut round = Round::new();
        for (chain, running) in &mut running {
            round.insert(*chain, running.run(effort.packets)?);
        }
        let values = round.values().map(|sample| sample.thread + sample.process).collect();
        Ok::<_, CalibrateError>((round, values))
    };
    let (rounds, steadiness) = steady(effort.rounds, measure)?;
    let dispatch = operations.get(Operation::Dispatch.name());
    let dispatch = dispatch.map_or((0.0, 0.0), |cost| {
        (cost.each.value, cost.batch.as_ref().map_or(0.0, |batch| batch.value))
    });
    Ok((Costs::of(&rounds, dispatch), steadiness))
}

fn named(costs: &Costs, day: &str) -> BTreeMap<String, OperationCost> {
    let constant = |(operation, each, batch): (Operation, Summary, Option<Summary>)| {
        let batch = batch.map(|batch| batch.constant(day));
        (operation.name().to_owned(), OperationCost { each: each.constant(day), batch })
    };
    costs.summaries().map(constant).collect()
}

/// Notes which operations no round showed.
fn note_missing(found: &BTreeMap<String, OperationCost>, what: &str, notes: &mut Notes<'_>) {
    let all = Operation::ALL.iter().filter(|operation| operation.is_of_isolation());
    let missing: Vec<&str> =
        all.map(|operation| operation.name()).filter(|name| !found.contains_key(*name)).collect();
    if !missing.is_empty() {
        let names = missing.join(", ");
        notes.add(format!(
            "{names} on {what}: not measured: functions hardly slept; measure again on an idle host"
        ));
    }
}
