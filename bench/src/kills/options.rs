//! The command line of `thruway-bench kills`.

use std::path::PathBuf;

use super::elements::SESSIONS_MAX;

/// Arguments of `thruway-bench kills`.
#[derive(Debug, clap::Args)]
#[command(after_help = "As root, or as a user that may create namespaces.")]
pub struct Options {
    /// How often the function is killed
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub kills: u32,
    /// Packets a second meanwhile
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rate: u32,
    /// Sessions that they belong to
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=SESSIONS_MAX as i64))]
    pub sessions: u32,
    /// Milliseconds from one kill to the next
    #[arg(long, value_name = "MS", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub pause: u32,
    /// Slots of the function's ring
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..=32_768))]
    pub slots: u32,
    /// More arguments of the function's element, such as "STANDBY false"
    #[arg(long, value_name = "ARGUMENTS")]
    pub nf: Option<String>,
    /// Show whether goals are met; exit 1 if one is missed
    #[arg(long)]
    pub goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    pub json: Option<PathBuf>,
}
