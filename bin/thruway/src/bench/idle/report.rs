//! Rows for people and for programs.

use serde_json::{Value, json};

use super::Row;
use crate::bench::machine::Machine;

/// The line above the table, and its columns.
pub fn heading(machine: &Machine, seconds: u32) -> String {
    format!(
        "bench idle: {} cores, {}, Linux {}, load {}; {seconds} s each, 64-byte packets, AF_XDP or what \
         there is\nway: from socket to socket, one packet at a time; what it is longer than with poll \
         is waking\n\n{:>7} {:>9} {:>6} {:>12} {:>12} {:>7} {:>26}\n",
        machine.cores,
        machine.model,
        machine.kernel,
        machine.load,
        "threads",
        "idle",
        "load %",
        "made/s",
        "forwarded/s",
        "CPU %",
        "way us: p50, p99, longest"
    )
}

/// Median, 99th percentile and longest way, microseconds.
fn ways(row: &Row) -> Option<[f64; 3]> {
    let us = |percent| row.ways.as_ref().map(|ways| ways.percentile_ns(percent) / 1e3);
    Some([us(50.0)?, us(99.0)?, us(100.0)?])
}

/// Processor time below which a router is not what limits, percent.
const BUSY: f64 = 80.0;

/// Whether the kernel's reception or the load was at its limit before the router was: then what is
/// called its capacity is less than that.
fn is_not_full(row: &Row) -> bool {
    row.load == 100 && row.cpu < BUSY
}

/// A row, for people.
pub fn line(row: &Row) -> String {
    let ways = match ways(row) {
        Some([p50, p99, most]) => format!("{p50:.1}, {p99:.1}, {most:.1}"),
        None if is_not_full(row) => "(not the router's limit)".to_owned(),
        None => String::new(),
    };
    format!(
        "{:>7} {:>9} {:>6} {:>12.0} {:>12.0} {:>7.1} {ways:>26}\n",
        row.threads, row.idle, row.load, row.rate.made, row.rate.forwarded, row.cpu
    )
}

/// The rows in JSON.
pub fn json(machine: &Machine, rows: &[Row]) -> String {
    let tenth = |value: f64| (value * 10.0).round() / 10.0;
    let row = |row: &Row| -> Value {
        json!({
            "threads": row.threads, "idle": row.idle, "load_percent": row.load,
            "made_pps": row.rate.made.round(), "forwarded_pps": row.rate.forwarded.round(),
            "cpu_percent": tenth(row.cpu), "is_not_full": is_not_full(row),
            "way_us_p50_p99_max": ways(row).map(|ways| ways.map(tenth)),
        })
    };
    let all = json!({
        "bench": "idle", "version": env!("CARGO_PKG_VERSION"), "model": machine.model,
        "cores": machine.cores, "kernel": machine.kernel, "load": machine.load,
        "rows": rows.iter().map(row).collect::<Vec<Value>>(),
    });
    format!("{all:#}\n")
}
