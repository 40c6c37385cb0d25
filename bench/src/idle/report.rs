//! Rows for people and for programs, and goals.

use serde_json::{Value, json};
use thruway_port::generator::Histogram;

use super::capacity::Capacity;
use super::lab::CorePlan;
use super::options::Options;
use crate::goal::Goal;
use crate::machine::Machine;

/// What a router that sleeps may take of a processor when nothing comes, percent.
const IDLE_MAX: f64 = 1.0;
/// Within so many microseconds 99 of 100 packets wake a thread that sleeps (ADR 20).
const WAKE_MAX_US: f64 = 100.0;
/// At its capacity a router that sleeps when it can takes so many percent of a processor at least:
/// else something else is the limit.
const FULL_MIN: f64 = 80.0;

/// What a router took under one load.
#[derive(Debug, Clone)]
pub struct Row {
    pub(super) idle: &'static str,
    /// Percent of the capacity.
    pub(super) load: u32,
    /// Packets a second.
    pub(super) offered: f64,
    /// Percent of one processor. Without load it is that of no packets at all.
    pub(super) cpu: f64,
    pub(super) made: u64,
    pub(super) lost: u64,
    pub(super) latencies: Histogram,
}

/// All that was measured.
pub(super) struct Results {
    pub(super) threads: usize,
    pub(super) work: u32,
    pub(super) capacity: Capacity,
    pub(super) rows: Vec<Row>,
}

/// The lines above the table, and its columns.
pub fn heading(machine: &Machine, core_plan: &CorePlan, options: &Options) -> String {
    format!(
        "bench idle: router on cores {:?}, load on core {}, reception on core {}, of {}, {}, Linux \
         {}, load {}\n{} s each, 64-byte packets, {} numbers drawn for each; latency is from \
         generator to sink, waking what it is longer than poll's\n",
        core_plan.router,
        core_plan.load,
        core_plan.receiver,
        machine.cores,
        machine.model,
        machine.kernel,
        machine.load,
        options.seconds,
        options.work,
    )
}

/// The line of the capacity, and the columns of the table.
pub fn capacity(capacity: &Capacity) -> String {
    let note =
        if capacity.is_routers { "" } else { "; that is the load's limit, not the router's" };
    format!(
        "capacity {:.0} packets/s{note}\n\n{:>9} {:>6} {:>11} {:>7} {:>7} {:>24} {:>15}\n",
        capacity.pps,
        "idle",
        "load %",
        "offered/s",
        "CPU %",
        "lost",
        "latency us: p50 p99 max",
        "waking p50, p99"
    )
}

/// Median, 99th percentile and maximum latency, microseconds.
fn latencies(row: &Row) -> [f64; 3] {
    let ns = [
        row.latencies.percentile_ns(50.0),
        row.latencies.percentile_ns(99.0),
        row.latencies.longest_ns(),
    ];
    ns.map(|ns| ns as f64 / 1e3)
}

/// The time in which a packet wakes a thread, median and 99th percentile, microseconds: its latency
/// beyond the median latency of polling threads. `None` under load, where other packets may
/// have woken it, and for polling threads.
fn waking(row: &Row, rows: &[Row]) -> Option<[f64; 2]> {
    let poll = rows.iter().find(|other| other.idle == "poll" && other.load == 0)?;
    if row.load != 0 || row.idle == "poll" {
        return None;
    }
    let ([usual, ..], [p50, p99, _]) = (latencies(poll), latencies(row));
    Some([p50 - usual, p99 - usual])
}

/// A row, for people; `before` are those that were measured before it.
pub fn line(row: &Row, before: &[Row]) -> String {
    let latencies = latencies(row).map(|us| format!("{us:.1}")).join(", ");
    let waking = waking(row, before).map(|both| both.map(|us| format!("{us:.1}")).join(", "));
    let text = format!(
        "{:>9} {:>6} {:>11.0} {:>7.2} {:>7} {latencies:>24} {:>15}",
        row.idle,
        row.load,
        row.offered,
        row.cpu,
        row.lost,
        waking.unwrap_or_default()
    );
    format!("{}\n", text.trim_end())
}

/// All goals.
pub fn goals(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    for row in &results.rows {
        let name = format!("{} at {} %", row.idle, row.load);
        if row.load < 100 {
            goals.push(Goal::most(format!("{name}, packets lost"), row.lost as f64, 0.0));
        }
        if let Some([_, p99]) = waking(row, &results.rows) {
            goals.push(Goal::most(format!("{name}, CPU %"), row.cpu, IDLE_MAX));
            goals.push(Goal::most(format!("{name}, waking p99, us"), p99, WAKE_MAX_US));
        }
        if row.load == 100 && row.idle == "sleep" {
            goals.push(Goal::least(format!("{name}, CPU %"), row.cpu, FULL_MIN));
        }
    }
    goals
}

/// The rows in JSON.
pub fn json(machine: &Machine, results: &Results) -> String {
    let tenth = |value: f64| (value * 10.0).round() / 10.0;
    let row = |row: &Row| -> Value {
        json!({
            "idle": row.idle, "load_percent": row.load,
            "offered_pps": row.offered.round(), "cpu_percent": (row.cpu * 100.0).round() / 100.0,
            "made": row.made, "lost": row.lost,
            "way_us_p50_p99_max": latencies(row).map(tenth),
            "waking_us_p50_p99": waking(row, &results.rows).map(|both| both.map(tenth)),
        })
    };
    let all = json!({
        "bench": "idle", "version": env!("CARGO_PKG_VERSION"), "model": machine.model,
        "cores": machine.cores, "kernel": machine.kernel, "load": machine.load,
        "threads": results.threads, "work": results.work,
        "capacity_pps": results.capacity.pps.round(),
        "capacity_is_routers": results.capacity.is_routers,
        "waking_p99_us_bound": WAKE_MAX_US,
        "rows": results.rows.iter().map(row).collect::<Vec<Value>>(),
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use thruway_port::generator::Histogram;

    use super::*;
    use crate::goal;

    fn row(idle: &'static str, load: u32, cpu: f64, lost: u64, us: u64) -> Row {
        // 98 of 100 packets take so long, the others ten times that.
        let ns = (0..100).map(|at| if at < 98 { us * 1000 } else { us * 10_000 });
        Row { idle, load, offered: 1e3, cpu, made: 100, lost, latencies: Histogram::of_ns(ns) }
    }

    #[test]
    fn waking_is_what_the_way_is_longer_than_that_of_poll() {
        let rows = [row("poll", 0, 100.0, 0, 10), row("sleep", 0, 0.1, 0, 30)];
        let [p50, p99] = waking(&rows[1], &rows).expect("it sleeps");
        // Buckets are 1/32 wide at most.
        assert!((p50 - 20.0).abs() < 1.5 && (p99 - 290.0).abs() < 10.0, "{p50} {p99}");
        assert_eq!(waking(&rows[0], &rows), None);
        assert_eq!(waking(&row("sleep", 10, 9.0, 0, 30), &rows), None);
        assert_eq!(waking(&rows[1], &[]), None);
    }

    #[test]
    fn goals_are_met_or_missed() {
        let capacity = Capacity { pps: 1e5, is_routers: true };
        let good = vec![
            row("poll", 0, 100.0, 0, 10),
            row("poll", 100, 100.0, 7, 10),
            row("sleep", 0, 0.1, 0, 12),
            row("sleep", 1, 2.0, 0, 12),
            row("sleep", 100, 95.0, 3, 12),
        ];
        let missed = |rows: Vec<Row>| {
            goal::missed(goals(&Results { threads: 1, work: 1, capacity, rows })).len()
        };
        // 120 us of the slowest are more than may be.
        assert_eq!(missed(good.clone()), 1);
        let mut rows = good.clone();
        rows[2].latencies = Histogram::of_ns([12_000; 100]);
        assert_eq!(missed(rows.clone()), 0);
        for (at, cpu, lost) in [(2, 1.1, 0), (3, 2.0, 1), (4, 79.0, 3), (2, 0.1, 1)] {
            let mut rows = rows.clone();
            (rows[at].cpu, rows[at].lost) = (cpu, lost);
            assert_eq!(missed(rows), 1, "row {at}, {cpu} %, {lost} lost");
        }
    }
}
