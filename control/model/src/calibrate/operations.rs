//! Elementary operations, each the difference between its carrier and its base.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use thruway_element::cost::Operation;

use super::carriers::{CARRIERS, Carrier, UNCALIBRATED};
use super::effort::{Effort, Notes};
use super::error::CalibrateError;
use super::statistics::{Probe, Summary, differences, interleave, parts};
use super::workload::Workload;
use crate::hardware::OperationCost;

/// Packets of a batch, of several sizes: what is done once a batch, and what for every packet, come
/// apart by them. One packet alone is not among them: the engine has another path for it. The
/// largest is what sources make by default; frames of more short packets do not stay in the first
/// level.
const BATCHES: [usize; 3] = [2, 8, 32];

/// Of one operation: cycles each time, by size of batches, round by round.
type Runs = [Vec<f64>; 3];

/// The cost of an operation as it is being worked out.
#[derive(Debug, Clone, Copy)]
struct Found {
    each: Summary,
    batch: Summary,
}

/// Measures every operation that has a carrier.
///
/// # Errors
/// When a carrier cannot be built or loses packets.
pub fn measure(
    effort: &Effort,
    notes: &mut Notes<'_>,
) -> Result<BTreeMap<String, OperationCost>, CalibrateError> {
    notes.progress(&format!("{} elementary operations", CARRIERS.len()));
    let runs = run_all(effort, notes)?;
    let mut found = BTreeMap::new();
    for carrier in CARRIERS {
        let runs = BATCHES.map(|burst| own(carrier, burst, &runs, &found));
        found.insert(carrier.operation, fitted(&runs));
    }
    for (operation, why) in UNCALIBRATED {
        notes.add(format!("{}: not measured: {why}", operation.name()));
    }
    let constant = |cost: &Found| OperationCost {
        each: cost.each.constant(&notes.day),
        batch: Some(cost.batch.constant(&notes.day)),
    };
    Ok(found
        .iter()
        .map(|(operation, cost)| (operation.name().to_owned(), constant(cost)))
        .collect())
}

/// What fits the medians of the runs; the spreads are those of what fits each run.
fn fitted(runs: &Runs) -> Found {
    let sizes = BATCHES.map(|size| size as f64);
    let rounds = runs.iter().map(Vec::len).min().unwrap_or(0);
    let each_run = (0..rounds).map(|round| parts(&sizes, &[0, 1, 2].map(|size| runs[size][round])));
    let (each, batch): (Vec<f64>, Vec<f64>) = each_run.unzip();
    let medians = [0, 1, 2].map(|size| Summary::of(&runs[size]).value);
    let (each_value, batch_value) = parts(&sizes, &medians);
    Found {
        each: Summary { value: each_value, ..Summary::of(&each) },
        batch: Summary { value: batch_value, ..Summary::of(&batch) },
    }
}

/// Runs all configurations in turn; cycles per packet by text, round by round.
fn run_all(
    effort: &Effort,
    notes: &mut Notes<'_>,
) -> Result<BTreeMap<String, Vec<f64>>, CalibrateError> {
    let mut workloads = BTreeMap::new();
    for carrier in CARRIERS {
        for burst in BATCHES {
            let texts = [Some(carrier.text(burst)), carrier.base_text(burst)];
            for text in texts.into_iter().flatten() {
                let Entry::Vacant(vacant) = workloads.entry(text) else { continue };
                let workload = Workload::new(carrier.operation.name(), vacant.key())?;
                vacant.insert(RefCell::new(workload));
            }
        }
    }
    let cycles = effort.cycles;
    let mut probes: Vec<Probe<'_>> = workloads
        .values()
        .map(|workload| Probe::new(move || workload.borrow_mut().run(cycles)))
        .collect();
    let steadiness = interleave(&mut probes, effort.rounds, effort.tries)?;
    notes.notes.extend(steadiness.note("elementary operations"));
    let values: Vec<Vec<f64>> = probes.into_iter().map(|probe| probe.values).collect();
    Ok(workloads.into_keys().zip(values).collect())
}

/// What a carrier's operation costs per time, in batches of one of the sizes: the difference to its
/// base, less what else the carrier does.
fn own(
    carrier: &Carrier,
    burst: usize,
    runs: &BTreeMap<String, Vec<f64>>,
    found: &BTreeMap<Operation, Found>,
) -> Vec<f64> {
    let nothing = Vec::new();
    let with = runs.get(&carrier.text(burst)).unwrap_or(&nothing);
    let base = carrier.base_text(burst).and_then(|text| runs.get(&text).cloned());
    let base = base.unwrap_or_else(|| vec![0.0; with.len()]);
    let beside: f64 = carrier
        .beside()
        .filter_map(|(operation, times)| {
            let cost = found.get(&operation)?;
            Some(times * (cost.each.value + cost.batch.value / burst as f64))
        })
        .sum();
    let rest: Vec<f64> = base.iter().map(|base| base + beside).collect();
    differences(with, &rest, carrier.more_often())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carrier(operation: Operation) -> &'static Carrier {
        CARRIERS.iter().find(|it| it.operation == operation).expect("it has one")
    }

    fn summary(value: f64) -> Summary {
        Summary { value, spread: 0.0, runs: 3 }
    }

    #[test]
    fn what_else_a_carrier_does_is_taken_off() {
        // A copy by Tee: eight times 20 cycles, of which 2 + 8/32 are the dispatch's and 1 the
        // line's.
        let clone = carrier(Operation::Clone);
        let runs = BTreeMap::from([
            (clone.text(32), vec![180.0, 200.0]),
            (clone.base_text(32).unwrap(), vec![20.0, 40.0]),
        ]);
        let cost = |each, batch| Found { each: summary(each), batch: summary(batch) };
        let found = BTreeMap::from([
            (Operation::Dispatch, cost(2.0, 8.0)),
            (Operation::CopyLine, cost(1.0, 0.0)),
        ]);
        assert_eq!(own(clone, 32, &runs, &found), [16.75, 16.75]);
    }

    #[test]
    fn spreads_are_of_runs_and_values_of_their_medians() {
        // 8 each and 32 a batch; in one of the rounds all took twice as long.
        let runs = [vec![24.0, 48.0, 24.0], vec![12.0, 24.0, 12.0], vec![9.0, 18.0, 9.0]];
        let found = fitted(&runs);
        assert!((found.each.value - 8.0).abs() < 1e-9 && (found.batch.value - 32.0).abs() < 1e-9);
        // Quartiles at 8 and 12, half of which is 2.
        assert!((found.each.spread - 2.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.each.runs, 3);
    }
}
