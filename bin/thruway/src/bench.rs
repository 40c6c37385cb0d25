//! `thruway bench`: what this machine takes for a packet, in seconds.
//!
//! Three configurations of `bench/path` over one trace in memory. Everything else that is measured
//! for `bench/record` is in the program `thruway-bench`.

use std::process::ExitCode;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use thruway_lang::Source;
use thruway_model::calibrate::{Summary, allowed, bind};

use crate::replay::Replay;
use crate::table::Table;
use crate::traffic::{small_network, write_trace};

/// Arguments of `thruway bench`.
#[derive(Debug, Args)]
#[command(after_help = "All other benches: cargo run --release -p thruway-bench")]
pub struct BenchArgs {
    /// Measurements of each configuration; the table has their median
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// CPU time of one measurement, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    time: u32,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// `path`, which may be left out, or a bench of thruway-bench with its options
    #[arg(value_name = "BENCH", hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

macro_rules! config {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../bench/path/", $name, ".click")))
    };
}

/// The configurations: name and text.
const CONFIGS: [(&str, &str); 3] = [config!("replay"), config!("check"), config!("router-5")];
/// Packets of the trace: 256 kB stay in a second-level cache.
const TRACE_PACKETS: usize = 4096;
/// Packets of the run from which the number of packets of a measurement is computed.
const PROBE: u64 = 200_000;
/// Of the trace.
const SEED: u64 = 20_260_717;

/// Runs `thruway bench`.
///
/// # Errors
/// Another bench is asked for, the trace cannot be written, or packets are lost.
pub fn main(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(refusal) = refused(&args.words) {
        anyhow::bail!(refusal);
    }
    let core = allowed().last().copied().filter(|core| bind(*core));
    if !args.json {
        let core = core.map_or("on no certain core".to_owned(), |core| format!("on core {core}"));
        outln!("CPU time of one packet of 64 bytes, {core}, median of {}\n", args.repeat);
    }
    let dir = tempfile::tempdir()?;
    let trace = dir.path().join("trace.pcap").to_string_lossy().into_owned();
    write_trace(&trace, &small_network(SEED), TRACE_PACKETS, SEED)?;
    let measured = CONFIGS.map(|(name, text)| {
        let ns = measure(name, &text.replace("$TRACE", &trace), args)?;
        anyhow::Ok(Measured::of(name, &ns))
    });
    let measured = measured.into_iter().collect::<anyhow::Result<Vec<Measured>>>()?;
    if args.json {
        let rows: Value = measured.iter().map(Measured::json).collect();
        outln!("{:#}", json!({ "core": core, "repeat": args.repeat, "rows": rows }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["configuration", "ns/packet", "min..max", "Mpps"]);
    measured.iter().for_each(|one| table.row(one.row()));
    out!("{}", table.render());
    Ok(ExitCode::SUCCESS)
}

/// The error for words that are no bench of this program.
fn refused(words: &[String]) -> Option<String> {
    match words {
        [] => None,
        [only] if only == "path" => None,
        [word, ..] if word == "path" => Some(format!(
            "'{}' is an option of the benches: cargo run --release -p thruway-bench -- {}",
            words[1],
            words.join(" ")
        )),
        [option, ..] if option.starts_with('-') => {
            Some(format!("bench has no option '{option}'; see thruway bench --help"))
        }
        [name, ..] => Some(format!(
            "bench '{name}' is in the program thruway-bench: cargo run --release -p thruway-bench \
             -- {}",
            words.join(" ")
        )),
    }
}

/// CPU time per packet of each measurement, nanoseconds.
fn measure(name: &str, text: &str, args: &BenchArgs) -> anyhow::Result<Vec<f64>> {
    let mut replay = Replay::new(Source::new(name, text), TRACE_PACKETS as u64)?;
    let mut once = |packets| -> anyhow::Result<f64> {
        let mut ns = 0;
        let done = replay.replay(packets, |router| {
            let begin = cpu_ns();
            router.run_threads();
            ns = cpu_ns() - begin;
        })?;
        Ok(ns as f64 / done as f64)
    };
    let probe = once(PROBE)?;
    let packets = (f64::from(args.time) * 1e6 / probe.max(0.1)) as u64;
    (0..args.repeat).map(|_| once(packets)).collect()
}

/// CPU time of this thread, nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // It counts up from zero.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of a packet through a configuration, nanoseconds.
struct Measured {
    name: &'static str,
    median: f64,
    min: f64,
    max: f64,
}

impl Measured {
    fn of(name: &'static str, ns: &[f64]) -> Measured {
        let (min, max) = ns
            .iter()
            .fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), ns| (min.min(*ns), max.max(*ns)));
        Measured { name, median: Summary::of(ns).value, min, max }
    }

    fn row(&self) -> Vec<String> {
        let Measured { name, median, min, max } = self;
        vec![
            (*name).to_owned(),
            format!("{median:.2}"),
            format!("{min:.1}..{max:.1}"),
            format!("{:.2}", 1e3 / median),
        ]
    }

    fn json(&self) -> Value {
        let Measured { name, median, min, max } = self;
        json!({ "configuration": name, "ns": median, "ns_min": min, "ns_max": max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_benches_are_named_with_the_command_that_runs_them() {
        let refused = |line: &str| {
            refused(&line.split_whitespace().map(str::to_owned).collect::<Vec<String>>())
        };
        assert_eq!((refused(""), refused("path")), (None, None));
        for line in ["exchange --goals", "path --goals", "kills"] {
            let text = refused(line).expect("another bench");
            assert!(text.ends_with(&format!("-p thruway-bench -- {line}")), "{text}");
        }
        assert!(refused("--goals").expect("an option").contains("no option '--goals'"));
    }

    #[test]
    fn a_row_has_median_spread_and_rate() {
        let measured = Measured::of("a", &[30.0, 10.0, 20.0]);
        assert_eq!(measured.row(), ["a", "20.00", "10.0..30.0", "50.00"]);
        let expected = json!({"configuration": "a", "ns": 20.0, "ns_min": 10.0, "ns_max": 30.0});
        assert_eq!(measured.json(), expected);
    }
}
