//! `thruway bench idle`: what a router takes of a processor at parts of its capacity, and how soon a
//! packet wakes it, whatever it does when it is idle. Between namespaces, as root.

mod lab;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use super::latency::Latencies;
use super::machine::{self, Machine};
use lab::{Lab, Rate};

/// Arguments of `thruway bench idle`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Seconds of each load
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Packets whose way is timed, one at a time with rests between them
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    packets: u32,
    /// Write the rows as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// As `thruway run --idle` takes them; the first one's capacity is everyone's 100 %.
const IDLES: [&str; 3] = ["poll", "adaptive", "sleep"];
const THREADS: [u32; 2] = [1, 2];
/// Percent of the capacity.
const LOADS: [u32; 4] = [0, 1, 10, 100];

/// What a router took under one load.
pub struct Row {
    pub threads: u32,
    pub idle: &'static str,
    /// Percent of the capacity.
    pub load: u32,
    pub rate: Rate,
    /// Percent of one processor.
    pub cpu: f64,
    /// Of packets one at a time, where there is no other load.
    pub ways: Option<Latencies>,
}

/// Runs the bench; it has no goals to miss.
///
/// # Errors
/// Not root, a tool that is missing, a router that does not run, a file that cannot be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        anyhow::bail!("it makes network namespaces: run it as root");
    }
    let cores = machine::allowed();
    let machine = Machine::look(cores.len(), None);
    print!("{}", report::heading(&machine, options.seconds));
    let time = Duration::from_secs(u64::from(options.seconds));
    let mut rows = Vec::new();
    for threads in THREADS {
        let mut capacity = None;
        for idle in IDLES {
            let mut lab = Lab::new(idle, threads, &cores)?;
            let ways = lab.ways(options.packets)?;
            let full = lab.load(None, time)?;
            let capacity = *capacity.get_or_insert(full.0.forwarded);
            for load in LOADS {
                let part = capacity * f64::from(load) / 100.0;
                let (rate, cpu) = if load == 100 { full } else { lab.load(Some(part), time)? };
                let ways = (load == 0).then(|| ways.clone());
                let row = Row { threads, idle, load, rate, cpu, ways };
                print!("{}", report::line(&row));
                rows.push(row);
            }
            lab.check()?;
        }
    }
    if let Some(file) = &options.json {
        super::write(file, &report::json(&machine, &rows))?;
    }
    Ok(true)
}
