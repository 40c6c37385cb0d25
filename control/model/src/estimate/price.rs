//! What elements cost on a host, in cycles: their operations, their batches, their memory.

use std::collections::BTreeSet;

use thruway_element::cost::{Access, Apart, Cost, Operation};

use super::placement::Placement;
use super::residency::{Object, residency};
use crate::hardware::{CacheLevel, Hardware};

/// An element in its place in a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Its name in the configuration.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its arguments; of one that is replaced for the rehearsal, none.
    pub arguments: String,
    /// Visits per packet that the sources make.
    pub visits: f64,
    /// Packets that come to it together, on average.
    pub batch: f64,
    /// What it costs per packet that visits it.
    pub costs: Vec<Cost>,
    /// What a process of its own does of its work.
    pub apart: Option<Apart>,
    /// Where that process runs.
    pub placement: Placement,
}

/// What one term of a cost comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priced {
    /// What is done.
    pub operation: Operation,
    /// Times per visit.
    pub count: f64,
    /// Cycles per visit with all data in the first level.
    pub work: f64,
    /// Cycles per visit that pass until lines are there from further away.
    pub memory: f64,
    /// Lines per visit that come from the last level.
    pub last_level_lines: f64,
}

/// What one element comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    /// The thread's terms, dispatch by the engine first.
    pub terms: Vec<Priced>,
    /// Those of its process, if it has one.
    pub process: Vec<Priced>,
    /// By how much the thread's took more on this host, if that was observed.
    pub ratio: Option<f64>,
}

impl Bill {
    /// Cycles of the thread per visit: as observed on the host, else as declared.
    pub fn cycles(&self) -> f64 {
        self.declared_cycles() * self.ratio.unwrap_or(1.0)
    }

    /// The same by the operations alone.
    pub fn declared_cycles(&self) -> f64 {
        self.terms.iter().map(|term| term.work + term.memory).sum()
    }

    /// Cycles of its process per visit.
    pub fn process_cycles(&self) -> f64 {
        self.process.iter().map(|term| term.work + term.memory).sum()
    }

    /// Of these, cycles that pass until lines are there.
    pub fn memory(&self) -> f64 {
        self.terms.iter().map(|term| term.memory).sum::<f64>() * self.ratio.unwrap_or(1.0)
    }

    /// Lines per visit that come from the last level.
    pub fn last_level_lines(&self) -> f64 {
        self.terms.iter().map(|term| term.last_level_lines).sum()
    }
}

/// What elements come to, in their order, and which operations the host's description lacks.
#[derive(Debug, Clone, PartialEq)]
pub struct Bills {
    /// One per element.
    pub bills: Vec<Bill>,
    /// Counted as nothing, because nobody has measured them here.
    pub unknown: BTreeSet<Operation>,
}

/// Prices elements that work on one core: they share its caches. What their processes reach is
/// taken to be in the first level.
pub fn price(stations: &[Station], hardware: &Hardware) -> Bills {
    let sizes: Vec<f64> = hardware.levels.iter().map(|level| level.bytes).collect();
    let mut objects = residency(&objects(stations), &sizes).into_iter();
    let mut unknown = BTreeSet::new();
    let bills = stations
        .iter()
        .map(|station| {
            let dispatch = Operation::Dispatch.once();
            let costs = std::iter::once(&dispatch).chain(&station.costs);
            let terms = costs.map(|cost| {
                let priced = priced(cost, (station.batch, station.placement), hardware);
                let priced = priced.unwrap_or_else(|| nothing(cost, &mut unknown));
                match cost.reach {
                    Some(_) => waiting(priced, cost, &objects.next().unwrap_or_default(), hardware),
                    None => priced,
                }
            });
            let terms = terms.collect();
            let process = process_costs(station);
            let process = process.iter().map(|cost| {
                let priced = priced(cost, (PROCESS_BATCH, station.placement), hardware);
                priced.unwrap_or_else(|| nothing(cost, &mut unknown))
            });
            let ratio = hardware.observed.ratio(&station.class, &station.arguments);
            Bill { process: process.collect(), terms, ratio }
        })
        .collect();
    Bills { bills, unknown }
}

/// Packets that a function's process has at a time, at least, while its ring is never empty.
const PROCESS_BATCH: f64 = 31.0;

/// What an element's process does; with others on its core it takes turns.
fn process_costs(station: &Station) -> Vec<Cost> {
    let Some(apart) = &station.apart else { return Vec::new() };
    let turn = station.placement.is_in_turn.then(|| Operation::ProcessTurn.once());
    apart.costs.iter().copied().chain(turn).collect()
}

/// A term without waiting for memory; none where the description lacks the operation.
fn priced(
    cost: &Cost,
    (batch, placement): (f64, Placement),
    hardware: &Hardware,
) -> Option<Priced> {
    let work = work(cost, (batch, placement.is_with_thread), hardware)?;
    let (operation, count) = (cost.operation, cost.count);
    Some(Priced { operation, count, work, memory: 0.0, last_level_lines: 0.0 })
}

/// A term that the description lacks; what happens never needs no cost.
fn nothing(cost: &Cost, unknown: &mut BTreeSet<Operation>) -> Priced {
    let (operation, count) = (cost.operation, cost.count);
    if count > 0.0 || !operation.is_of_isolation() {
        unknown.insert(operation);
    }
    Priced { operation, count, work: 0.0, memory: 0.0, last_level_lines: 0.0 }
}

/// What elements reach, in the order of their terms.
fn objects(stations: &[Station]) -> Vec<Object> {
    let of = |station: &Station| {
        let visits = station.visits;
        let object = move |cost: &Cost| {
            let reach = cost.reach?;
            let per_packet = visits * cost.count * reach.lines;
            Some(Object { bytes: reach.bytes, per_packet, access: reach.access })
        };
        station.costs.iter().filter_map(object).collect::<Vec<Object>>()
    };
    stations.iter().flat_map(of).collect()
}

/// Cycles per visit without waiting for memory.
fn work(cost: &Cost, (batch, shares_core): (f64, bool), hardware: &Hardware) -> Option<f64> {
    let known = hardware.cost(cost.operation, shares_core)?;
    let each = known.each.value * cost.count;
    // Seldom is not in every batch.
    let part = known.batch.as_ref().map_or(0.0, |batch| batch.value) * cost.count.min(1.0);
    Some(each + part / batch.max(1.0))
}

fn latency(level: &CacheLevel, access: Access) -> f64 {
    match access {
        Access::Stream => level.stream.value,
        Access::Prefetched => level.prefetched.value,
        Access::Dependent => level.dependent.value,
    }
}

/// The same with what it waits for lines that are found with these probabilities in the levels.
fn waiting(priced: Priced, cost: &Cost, shares: &[f64], hardware: &Hardware) -> Priced {
    let Some(reach) = cost.reach else { return priced };
    let lines = cost.count * reach.lines;
    // What was measured was measured with all lines in the first level.
    let first = hardware.levels.first().map_or(0.0, |level| latency(level, reach.access));
    let more = |level: &CacheLevel| (latency(level, reach.access) - first).max(0.0);
    let wait: f64 =
        hardware.levels.iter().zip(shares).map(|(level, share)| share * more(level)).sum();
    let last = shares.last().copied().unwrap_or(0.0);
    Priced { memory: lines * wait, last_level_lines: lines * last, ..priced }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = r#"
name = "small"
cores = 1
clock_hz = { value = 1e9, source = "" }
levels = [
    { name = "L1", bytes = 6400, dependent = { value = 4, source = "" }, prefetched = { value = 2, source = "" }, stream = { value = 1, source = "" } },
    { name = "DRAM", bytes = 1e9, dependent = { value = 104, source = "" }, prefetched = { value = 22, source = "" }, stream = { value = 6, source = "" } },
]
[operations]
dispatch = { each = { value = 1, source = "" }, batch = { value = 64, source = "" } }
header-read = { each = { value = 3, source = "" } }
hash-lookup = { each = { value = 10, source = "" }, batch = { value = 32, source = "" } }
"#;

    fn station(batch: f64, costs: Vec<Cost>) -> Station {
        let placement = Placement::default();
        Station {
            name: "e".into(),
            class: "E".into(),
            arguments: String::new(),
            visits: 1.0,
            batch,
            costs,
            apart: None,
            placement,
        }
    }

    #[test]
    fn work_is_per_packet_and_per_batch() {
        let hardware = Hardware::parse("", HOST).unwrap();
        let costs = vec![Operation::HeaderRead.times(2.0)];
        let bills = price(&[station(32.0, costs)], &hardware);
        // 1 + 64/32 for the dispatch, 2 x 3 for the reads.
        assert_eq!(bills.bills[0].cycles(), 9.0);
        assert!(bills.unknown.is_empty());
    }

    #[test]
    fn a_large_table_is_waited_for() {
        let hardware = Hardware::parse("", HOST).unwrap();
        // 200 lines, of which 100 are in the first level: half of the lines cost 100 more.
        let lookup = Operation::HashLookup.once().reaching(12_800.0, 1.0, Access::Dependent);
        let bills = price(&[station(1.0, vec![lookup])], &hardware);
        let bill = &bills.bills[0];
        assert!((bill.memory() - 50.0).abs() < 1e-6, "{bill:?}");
        assert!((bill.last_level_lines() - 0.5).abs() < 1e-9);
        assert!((bill.cycles() - (1.0 + 64.0 + 10.0 + 32.0 + 50.0)).abs() < 1e-6);
        let small = Operation::HashLookup.once().reaching(6_400.0, 1.0, Access::Dependent);
        assert_eq!(price(&[station(1.0, vec![small])], &hardware).bills[0].memory(), 0.0);
    }

    #[test]
    fn what_nobody_measured_is_said() {
        let hardware = Hardware::parse("", HOST).unwrap();
        let bills = price(&[station(32.0, vec![Operation::PortSend.once()])], &hardware);
        assert_eq!(bills.unknown.into_iter().collect::<Vec<_>>(), [Operation::PortSend]);
    }

    #[test]
    fn every_cost_of_a_station_finds_its_own_object() {
        let hardware = Hardware::parse("", HOST).unwrap();
        let small = Operation::HashLookup.once().reaching(64.0, 1.0, Access::Dependent);
        let large = Operation::HashLookup.once().reaching(1e8, 1.0, Access::Dependent);
        let bills = price(&[station(1.0, vec![small]), station(1.0, vec![large])], &hardware);
        assert!(bills.bills[0].memory() < 5.0, "{bills:?}");
        assert!(bills.bills[1].memory() > 95.0, "{bills:?}");
    }

    #[test]
    fn a_process_is_priced_by_where_it_runs() {
        let one = "ring-serve = { each = { value = 40, source = \"\" } }\n\
                   process-turn = { each = { value = 9, source = \"\" } }\n";
        let shared = "[shared_core]\nring-serve = { each = { value = 70, source = \"\" } }\n";
        let hardware = Hardware::parse("", &format!("{HOST}{one}{shared}")).unwrap();
        let apart = Apart { cpus: Vec::new(), costs: vec![Operation::RingServe.once()] };
        let of = |placement: Placement| {
            let station = Station { apart: Some(apart.clone()), placement, ..station(1.0, vec![]) };
            let bills = price(&[station], &hardware);
            (bills.bills[0].process_cycles(), bills.unknown.len())
        };
        let alone = Placement::default();
        assert_eq!(of(alone), (40.0, 0));
        assert_eq!(of(Placement { is_in_turn: true, ..alone }), (49.0, 0));
        assert_eq!(of(Placement { is_with_thread: true, ..alone }), (70.0, 0));
        // The description lacks turns on a shared core, which is said.
        assert_eq!(of(Placement { is_with_thread: true, is_in_turn: true, core: 0 }), (70.0, 1));
    }
}
