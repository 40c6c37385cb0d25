//! The command line of `thruway-bench idle`.

use std::path::PathBuf;

/// Arguments of `thruway-bench idle`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Needs root, a core more than the router has threads, ethtool and \
                        util-linux.")]
pub struct Options {
    /// Seconds of each load
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(super) seconds: u32,
    /// Threads of the router, each on a core of its own; with two, packets change threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) threads: u32,
    /// Numbers that the router draws for each packet, so that it and not the load is the limit; 0:
    /// no work
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) work: u32,
    /// Show whether goals are met; exit 1 if one is missed
    #[arg(long)]
    pub(super) goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}
