//! Arguments of the bench.

use std::path::PathBuf;

/// Arguments of `thruway-bench manager`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Needs thruway and thruway-manager beside this program.")]
pub struct Options {
    /// Elements of the chain that forwards packets
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(3..=5000))]
    pub elements: u32,
    /// Other chains, which are declared and do not run
    #[arg(long, value_name = "N", default_value_t = 99, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub chains: u32,
    /// Turns with and without scrapes
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Length of a turn, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=60_000))]
    pub time: u32,
    /// Scrapes a second in turns that have some
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub scrapes: u32,
    /// Show whether goals are met; exit 1 if one is missed
    #[arg(long)]
    pub goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    pub json: Option<PathBuf>,
}
