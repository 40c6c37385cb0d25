//! `thruway-bench moves`: how long it takes to move a million sessions from one replica of an
//! isolated function to another one under traffic, how long a session's packets wait meanwhile, and
//! whether any is lost or overtaken.
//!
//! The function counts the packets of each session in its scratch and writes the count into the
//! packet: so each session's packets say whether its scratch went along.

mod elements;
mod moving;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use super::machine::{self, Machine};
pub use elements::ELEMENTS;

/// Arguments of `thruway-bench moves`.
#[derive(Debug, clap::Args)]
#[command(after_help = "As root, or as a user who may make namespaces.")]
pub struct Options {
    /// Sessions that move
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=elements::SESSIONS_MAX as i64))]
    sessions: u32,
    /// How often all of them move
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    moves: u32,
    /// Packets a second meanwhile
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: u32,
    /// Show whether goals are met; exit 1 if one is missed
    #[arg(long)]
    goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one move of all sessions came to.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    /// From the call until none is left.
    pub took: Duration,
    /// The longest time from a packet's source to its sink.
    pub latency: Duration,
}

/// All that was measured.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub moves: Vec<Move>,
    /// The longest time that packets waited for a move, as `Balance` says.
    pub pause: Duration,
    /// The longest time from source to sink in a second without moves.
    pub latency_before: Duration,
    /// Sessions that moved, and those that were to.
    pub moved: [u64; 2],
    /// Packets that the source made, and those that came.
    pub made: u64,
    pub back: u64,
    /// Packets whose session had lost its scratch, or that were overtaken.
    pub backwards: u64,
    /// Packets that elements dropped, by reason.
    pub drops: String,
}

/// Runs the bench; false when a goal was to be met and was not.
///
/// # Errors
/// A function that does not start, a move that does not end; a file that cannot be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let machine = Machine::look(machine::allowed().len(), None);
    out!("{}", report::heading(&machine, options));
    let results = moving::measure(options)?;
    out!("{}", report::text(&results));
    let goals = report::goals(&results);
    if options.goals {
        goals.iter().for_each(|goal| outln!("{goal}"));
    }
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, options, &results))?;
    }
    Ok(!options.goals || goals.iter().all(report::Goal::is_met))
}
