//! The command line of `thruway-bench io`.

use std::path::PathBuf;

/// Arguments of `thruway-bench io`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Needs root, two cores, ethtool, nft and util-linux.")]
pub struct Options {
    /// Turns of everyone; a row is the median
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// Length of one measurement, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(50..=10_000))]
    pub(super) time: u32,
    /// Three rounds of 200 ms
    #[arg(long)]
    pub(super) quick: bool,
    /// Only cases that contain PATTERN, or match it as a whole if it has * or ?; with what they are
    /// compared with
    #[arg(long, value_name = "PATTERN")]
    pub(super) case: Option<String>,
    /// Flows of the load
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub(super) flows: u32,
    /// Bytes of a frame, without its check sequence
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub(super) len: usize,
    /// Show each row's goals; exit 1 if one is missed
    #[arg(long)]
    pub(super) goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Put configurations and logs in DIR and leave them there (default: a temporary directory)
    #[arg(long, value_name = "DIR")]
    pub(super) keep: Option<PathBuf>,
}
