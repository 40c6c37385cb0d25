//! Arguments of the bench.

use std::path::PathBuf;

use super::elements::SESSIONS_MAX;

/// Arguments of `thruway-bench moves`.
#[derive(Debug, clap::Args)]
#[command(after_help = "As root, or as a user that may create namespaces.")]
pub struct Options {
    /// Sessions that move
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=SESSIONS_MAX as i64))]
    pub sessions: u32,
    /// How often all of them move
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub moves: u32,
    /// Packets a second meanwhile
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rate: u32,
    /// Show whether goals are met; exit 1 if one is missed
    #[arg(long)]
    pub goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    pub json: Option<PathBuf>,
}
