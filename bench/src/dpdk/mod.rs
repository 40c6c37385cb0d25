//! `thruway-bench dpdk`: packets through DPDK's null devices, against DPDK's own forwarder.
//!
//! Received, Ethernet addresses swapped, sent: by `dpdk-testpmd`'s forward mode macswap, by one
//! element between FromDPDKDevice and ToDPDKDevice, and by the same element isolated in a process
//! of its own. All take turns, in bursts of the same size, without huge pages. What counts is the
//! processor time of the thread that forwards.

mod system;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

use super::machine::{self, Machine};
use super::row::median;
use system::{Done, PACKAGE, System};

/// The part of testpmd's rate that the engine is to reach.
const GOAL: f64 = 0.8;

/// Arguments of `thruway-bench dpdk`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Packets of a burst; may be given several times
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..=256))]
    burst: Vec<u32>,
    /// Measurements of each; a row is their median
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Length of one measurement, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    time: u32,
    /// Show the goal; exit 1 if it is missed
    #[arg(long)]
    goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One contestant's measurements with one burst.
struct Row {
    system: System,
    burst: u32,
    /// Millions of packets in a second of processor time: median, least, most.
    mpps: [f64; 3],
    /// The same in a second of the clock, median.
    wall_mpps: f64,
    /// To testpmd's, turn by turn, median.
    ratio: f64,
}

/// Runs the bench; false when the goal was to be met and was not.
///
/// # Errors
/// The program was built without DPDK, testpmd is missing, one of the contestants fails.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    if !thruway_port::dpdk::IS_BUILT_IN {
        bail!(
            "this program was built without DPDK; apt-get install libdpdk-dev {PACKAGE}, then \
             cargo build --release --features dpdk -p thruway-bench"
        );
    }
    let machine = Machine::look(machine::allowed().len(), None);
    out!("{}", heading(&machine, options));
    let mut rows = Vec::new();
    for burst in &options.burst {
        rows.extend(measure(*burst, options)?);
    }
    if let Some(file) = &options.json {
        super::report::write(file, &json(&machine, &rows))?;
    }
    let missed = |row: &&Row| row.system == System::Engine && row.ratio < GOAL;
    let missed: Vec<&Row> = rows.iter().filter(missed).collect();
    if options.goals {
        outln!("goal: the engine at {GOAL} of testpmd or more: {} missed", missed.len());
    }
    Ok(!options.goals || missed.is_empty())
}

/// Measures all contestants with one burst, and prints their rows.
fn measure(burst: u32, options: &Options) -> anyhow::Result<Vec<Row>> {
    let time = Duration::from_millis(u64::from(options.time));
    let mut all: Vec<(System, Vec<Done>)> =
        System::ALL.iter().map(|system| (*system, Vec::new())).collect();
    for _ in 0..options.repeat {
        for (system, repeats) in &mut all {
            repeats.push(system.run(burst, time)?);
        }
    }
    let base: Vec<f64> = all[0].1.iter().map(Done::mpps).collect();
    let row = |(system, repeats): (System, Vec<Done>)| {
        let rates = || repeats.iter().map(Done::mpps);
        let ratios = rates().zip(&base).map(|(own, base)| own / base);
        let row = Row {
            system,
            burst,
            mpps: [
                median(rates()),
                rates().fold(f64::INFINITY, f64::min),
                rates().fold(0.0, f64::max),
            ],
            wall_mpps: median(repeats.iter().map(Done::wall_mpps)),
            ratio: median(ratios),
        };
        out!("{}", line(&row));
        row
    };
    Ok(all.into_iter().map(row).collect())
}

fn heading(machine: &Machine, options: &Options) -> String {
    format!(
        "bench dpdk: null devices, receive - swap addresses - send, {} repeats of {} ms\n{}, {} \
         cores, load {}\n\n{:10} {:>5} {:>10} {:>17} {:>10} {:>6}\n",
        options.repeat,
        options.time,
        machine.model,
        machine.cores,
        machine.load,
        "",
        "burst",
        "Mpps (CPU)",
        "least-most",
        "by clock",
        "ratio"
    )
}

fn line(row: &Row) -> String {
    let [middle, least, most] = row.mpps;
    format!(
        "{:10} {:>5} {middle:>10.2} {:>17} {:>10.2} {:>6.2}\n",
        row.system.name(),
        row.burst,
        format!("{least:.2}-{most:.2}"),
        row.wall_mpps,
        row.ratio
    )
}

fn json(machine: &Machine, rows: &[Row]) -> String {
    let mut text = String::from("{\n");
    let _ = writeln!(
        text,
        "  \"bench\": \"dpdk\",\n  \"machine\": {:?}, \"cores\": {}, \"kernel\": {:?}, \"load\": {:?},",
        machine.model, machine.cores, machine.kernel, machine.load
    );
    text.push_str("  \"rows\": [\n");
    for (at, row) in rows.iter().enumerate() {
        let comma = if at + 1 == rows.len() { "" } else { "," };
        let [middle, least, most] = row.mpps;
        let _ = writeln!(
            text,
            "    {{\"contestant\": {:?}, \"burst\": {}, \"mpps\": {middle:.3}, \"mpps_min\": \
             {least:.3}, \"mpps_max\": {most:.3}, \"wall_mpps\": {:.3}, \"ratio\": {:.3}}}{comma}",
            row.system.name(),
            row.burst,
            row.wall_mpps,
            row.ratio
        );
    }
    text.push_str("  ]\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_json() {
        let row = Row {
            system: System::Engine,
            burst: 32,
            mpps: [70.0, 60.0, 80.0],
            wall_mpps: 69.0,
            ratio: 0.9,
        };
        let text = json(&Machine::look(2, None), &[row]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["rows"][0]["contestant"], "engine");
        assert_eq!(value["rows"][0]["mpps_min"], 60.0);
    }
}
