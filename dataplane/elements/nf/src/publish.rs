//! Published figures of an isolated function, and facts about its process.

use std::sync::{Arc, Weak};

use thruway_element::{Cx, Facts, Publisher};

use super::backend::Function;
use super::link::Link;
use super::replica::Nf;
use super::report;
use super::state::NfState;

/// Figures of one thread's rings.
const FIGURES: [&str; 6] =
    ["packets_in", "packets_out", "occupancy", "slots", "timed_batches", "late_batches"];

impl Publisher for Nf {
    fn figures(&self) -> &'static [&'static str] {
        &FIGURES
    }

    fn publish(&self, _cx: &mut Cx<'_>, values: &mut [u64]) {
        let slots = u64::from(self.settings.shape.slots);
        let figures = match &self.running {
            Some(state) => of_state(state, slots),
            None => [0, 0, 0, slots, 0, 0],
        };
        values.iter_mut().zip(figures).for_each(|(value, figure)| *value = figure);
    }

    fn facts(&self) -> Option<Arc<dyn Facts>> {
        let function = Arc::downgrade(&self.running.as_ref()?.function);
        Some(Arc::new(FunctionFacts(function)))
    }
}

fn of_state(state: &NfState, slots: u64) -> [u64; FIGURES.len()] {
    let occupancy = state.link.as_ref().map_or(0, Link::occupancy);
    let (timed, late) = (state.latency.timed_count(), state.latency.late_count());
    [state.figures().put, state.outlet.out, occupancy.into(), slots, timed, late]
}

/// Facts about a function's process. They do not keep the function alive: it ends with its
/// element.
struct FunctionFacts(Weak<dyn Function>);

/// Handlers that the supervisor of the process answers.
const FACTS: [&str; 5] = ["state", "pid", "restarts", "hangs", "last_error"];

impl Facts for FunctionFacts {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let Some(function) = self.0.upgrade() else { return Vec::new() };
        let of = |name: &'static str| Some((name, function.describe(report::property(name)?)));
        FACTS.into_iter().filter_map(of).collect()
    }
}
