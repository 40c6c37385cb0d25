//! `thruway-bench kills`: how soon an isolated function that was killed is back, again and again,
//! under traffic with sessions, and what that costs.
//!
//! The real engine, the real element as users write it, a real process in its sandbox. Packets are
//! numbered, and the function says in each which of its processes had it: so the time is from the
//! kill to the first packet that the next process answered, and what is lost is known one by one.

mod elements;
mod killing;
mod report;
pub mod stamp;
mod waits;

use std::path::PathBuf;
use std::time::Duration;

use super::machine::{self, Machine};
pub use elements::ELEMENTS;

/// Arguments of `thruway-bench kills`.
#[derive(Debug, clap::Args)]
#[command(after_help = "As root, or as a user who may make namespaces.")]
pub struct Options {
    /// How often the function is killed
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    kills: u32,
    /// Packets a second meanwhile
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: u32,
    /// Sessions that they belong to
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=elements::SESSIONS_MAX as i64))]
    sessions: u32,
    /// Milliseconds from one kill to the next
    #[arg(long, value_name = "MS", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pause: u32,
    /// Slots of the function's ring
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..=32_768))]
    slots: u32,
    /// More arguments of the function's element, such as "STANDBY false"
    #[arg(long, value_name = "ARGUMENTS")]
    nf: Option<String>,
    /// Show whether goals are met; exit 1 if one is missed
    #[arg(long)]
    goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one kill came to.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    /// Until the first packet that the next process answered.
    pub back: Duration,
    /// Of that, how long threads that could run waited for a processor.
    pub waited: Duration,
    /// Packets that were lost.
    pub lost: u64,
}

/// All that was measured.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub kills: Vec<Kill>,
    /// Packets that the source made, and those that came back.
    pub made: u64,
    pub back: u64,
    /// What went wrong otherwise; see [`elements::Ledger`].
    pub astray: u64,
    pub forgotten: u64,
    /// Packets that the element dropped, by reason.
    pub drops: String,
    /// Sessions before the first kill and after the last.
    pub sessions: [u64; 2],
    /// Slots of the function's ring.
    pub slots: u64,
    /// Processor time of a start: of the function's processes, for each.
    pub start_cpu: Duration,
}

/// Runs the bench; false when a goal was to be met and was not.
///
/// # Errors
/// A function that does not start or is not back within seconds; a file that cannot be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let machine = Machine::look(machine::allowed().len(), None);
    out!("{}", report::heading(&machine, options));
    let results = killing::measure(options)?;
    out!("{}", report::text(&results));
    let verdicts = report::goals(&results);
    if options.goals {
        verdicts.iter().for_each(|verdict| outln!("{verdict}"));
    }
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, options, &results))?;
    }
    Ok(!options.goals || verdicts.iter().all(report::Goal::reaches_goal))
}
