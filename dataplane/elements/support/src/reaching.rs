//! Memory that elements reach beside packets: tables, by how much of them is in use.

use thruway_element::cost::{Access, Cost, Load, Operation};
use thruway_lpm::Footprint;

/// Bytes of a line.
const LINE: f64 = 64.0;

/// A session found in a table of the flow manager's kind, and opened where it is not there: half of
/// the work of finding it is done in the index, half at its record, which is fetched whole.
pub fn finding((record_bytes, index_bytes): (usize, f64), load: &Load) -> Vec<Cost> {
    let record_bytes = record_bytes as f64;
    let half = |bytes: f64, lines: f64| {
        let lookup = Operation::SessionLookup.times(0.5);
        lookup.reaching(bytes * load.sessions, lines / 0.5, Access::Prefetched)
    };
    let found = [half(index_bytes, 1.0), half(record_bytes, (record_bytes / LINE).max(1.0))];
    let opened = Operation::SessionOpen.times(load.opening);
    found.into_iter().chain((load.opening > 0.0).then_some(opened)).collect()
}

/// A route found, all lines of a batch at a time. Sessions go to one destination each.
pub fn routing(operation: Operation, table: Footprint, load: &Load) -> Cost {
    let asked_for = load.sessions * table.lines * LINE;
    operation.once().reaching((table.bytes as f64).min(asked_for), table.lines, Access::Prefetched)
}

/// Payload looked through for patterns, which take so many bytes. In each line something begins
/// like one of them, so that the tree of patterns is followed: that is waited for.
pub fn matching(bytes: usize, load: &Load) -> Vec<Cost> {
    let matched = Operation::MatchLine.times(Load::lines(load.payload_bytes));
    let matched = matched.reaching(bytes as f64, 1.0, Access::Dependent);
    vec![Operation::SessionState.once(), matched]
}

/// An entry of a table looked up; of its entries, each of so many bytes, no more are used than
/// there are sessions. The lookup waits for each of its lines.
pub fn looking_up(cost: Cost, (entries, bytes): (usize, usize), lines: f64, load: &Load) -> Cost {
    let used = (entries as f64).min(load.sessions);
    cost.reaching(used * bytes as f64, lines, Access::Dependent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(sessions: f64, opening: f64) -> Load {
        let (packet_bytes, payload_bytes) = (64.0, 22.0);
        Load { packet_bytes, payload_bytes, sessions, opening }
    }

    /// Operations, lines and bytes in all.
    fn sum(costs: &[Cost]) -> (f64, f64, f64) {
        let reached = |cost: &Cost| {
            let reach = cost.reach.expect("it reaches");
            (cost.count, cost.count * reach.lines, reach.bytes)
        };
        let add = |a: (f64, f64, f64), b: (f64, f64, f64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
        costs.iter().map(reached).fold((0.0, 0.0, 0.0), add)
    }

    #[test]
    fn a_session_is_found_by_two_lines_or_more() {
        // A record of a line and 16 bytes of index, for each of a thousand sessions.
        assert_eq!(sum(&finding((64, 16.0), &load(1000.0, 0.0))), (1.0, 2.0, 80_000.0));
        assert_eq!(sum(&finding((192, 16.0), &load(10.0, 0.0))), (1.0, 4.0, 2080.0));
        let opened = finding((64, 16.0), &load(10.0, 0.25));
        assert_eq!((opened[2].operation, opened[2].count), (Operation::SessionOpen, 0.25));
    }

    #[test]
    fn no_more_of_a_table_is_reached_than_sessions_ask_for() {
        let table = Footprint { bytes: 1 << 20, lines: 1.5 };
        let bytes = |sessions| {
            let cost = routing(Operation::RouteLookup, table, &load(sessions, 0.0));
            cost.reach.map(|reach| reach.bytes)
        };
        assert_eq!([bytes(10.0), bytes(1e6)], [Some(960.0), Some(1_048_576.0)]);
        let entries = |sessions| {
            let found = Operation::HashLookup.once();
            let cost = looking_up(found, (100, 128), 2.0, &load(sessions, 0.0));
            cost.reach.map(|reach| reach.bytes)
        };
        assert_eq!([entries(10.0), entries(1e6)], [Some(1280.0), Some(12_800.0)]);
    }
}
