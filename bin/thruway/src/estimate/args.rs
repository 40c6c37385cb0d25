//! What `thruway estimate` is asked for.

use std::path::PathBuf;

use clap::Args;

use crate::config_args::ConfigArgs;
use crate::run_args::thread_count;

/// Arguments of `thruway estimate`.
#[derive(Args)]
pub struct EstimateArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Traffic: a capture, or a description in TOML (docs/model.md); ELEMENT=FILE applies to one
    /// source
    #[arg(long, value_name = "FILE")]
    pub traffic: Vec<String>,
    /// Override the packet size (bytes)
    #[arg(long, value_name = "BYTES")]
    pub packet_bytes: Option<f64>,
    /// Override the number of sessions
    #[arg(long, value_name = "N")]
    pub sessions: Option<f64>,
    /// Batch size of ports, in packets
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub batch: u16,
    /// Threads
    #[arg(short = 'j', long, default_value_t = 1, value_parser = thread_count())]
    pub threads: u16,
    /// Rate of the link in bits per second, e.g. 10G
    #[arg(long, value_name = "BITS")]
    pub link: Option<String>,
    /// Also run the configuration from memory and print measured costs
    #[arg(long)]
    pub verify: bool,
    /// Compare with a running instance: address of its ControlSocket (HOST:PORT, PORT or PATH)
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["verify", "traffic"])]
    pub live: Option<String>,
    /// With --live: keep the observed costs with the description of this host; the next estimates
    /// and plans use them instead of the declared ones
    #[arg(long, requires = "live")]
    pub refine: bool,
    /// Drop the observed costs of this host
    #[arg(long, conflicts_with_all = ["live", "verify", "traffic", "paper"])]
    pub forget: bool,
    /// Interval of --live, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Estimate a model of elementary operations (docs/model.md): one of the paper by name, a .toml
    /// file, or all models of the paper
    #[arg(long, value_name = "MODEL", num_args = 0..=1)]
    pub paper: Option<Option<String>>,
    /// Description of the host [default: the one that `thruway calibrate` wrote here; for models,
    /// the paper's host]
    #[arg(long, value_name = "FILE")]
    pub hardware: Option<PathBuf>,
    /// Frame sizes in bytes, frame check sequence included
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub sizes: Vec<u32>,
    /// Write an HTML report with plots of rates by frame size and cycles by operation
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}
