//! What `thruway trace` is asked for.

use std::time::Duration;

use clap::Args;

use crate::run_args::thread_count;

/// Arguments of `thruway trace`.
#[derive(Args)]
pub struct TraceArgs {
    /// For a running instance: ADDRESS FILTER (FILTER alone if exactly one instance of this user
    /// runs). With --run or -e: FILTER NAME=VALUE... FILTER is written as for FlowDispatcher:
    /// 'tcp dst port 80', 'src net 10.0.0.0/8', 'arp', '12/0800', '-'
    #[arg(value_name = "ADDRESS FILTER | FILTER NAME=VALUE", required = true)]
    pub(super) words: Vec<String>,
    /// Run this configuration and trace packets in it
    #[arg(long, value_name = "FILE")]
    pub(super) run: Option<String>,
    /// Run this configuration text and trace packets in it
    #[arg(short = 'e', long, value_name = "TEXT", conflicts_with = "run")]
    pub(super) expression: Option<String>,
    /// Number of packets to trace
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) count: u64,
    /// Select packets at this element [default: at the input of the configuration]
    #[arg(long, value_name = "ELEMENT")]
    pub(super) at: Option<String>,
    /// Stop after this many seconds [default: when all traced packets have left]
    #[arg(long, value_name = "SECONDS", alias = "seconds")]
    pub(super) duration: Option<f64>,
    /// Also write a pcapng capture with one commented frame per hop; `-` is standard output,
    /// without text
    #[arg(long, value_name = "FILE")]
    pub(super) pcapng: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Threads of the configuration given by --run or -e
    #[arg(short = 'j', long, default_value_t = 1, value_parser = thread_count())]
    pub(super) threads: u16,
    /// Default batch size of its sources, in packets
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) burst: u16,
}

/// The instance or configuration to trace.
pub(super) struct Wanted<'a> {
    pub(super) filter: &'a str,
    pub(super) count: u64,
    pub(super) at: Option<&'a str>,
    pub(super) limit: Option<Duration>,
}

impl Wanted<'_> {
    /// The handler value that starts the trace under a name.
    pub(super) fn start(&self, name: &str) -> String {
        let at = self.at.unwrap_or("-");
        format!("start {name} {} {at} {}", self.count, self.filter)
    }
}

/// A name that no other trace has.
pub(super) fn name() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}-{}", std::process::id(), now.map_or(0, |now| now.as_nanos()))
}
