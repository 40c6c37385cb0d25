//! Arguments of the bench.

use std::path::PathBuf;

/// Arguments of `thruway-bench takeover`.
#[derive(Debug, clap::Args)]
#[command(after_help = "As root: it makes network namespaces.")]
pub struct Options {
    /// How often the serving host is killed
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: u32,
    /// TCP connections through it
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=25_000))]
    pub connections: u32,
    /// Requests a second, over all connections in turn
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// Silence after which the backup takes over, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(25..=10_000))]
    pub after: u32,
    /// Output commit: nothing leaves before the backup has its session
    #[arg(long)]
    pub commit: bool,
    /// Show whether goals are met; exit 1 if one is missed
    #[arg(long)]
    pub goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    pub json: Option<PathBuf>,
}
