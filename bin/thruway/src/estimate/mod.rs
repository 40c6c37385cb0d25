//! `thruway estimate`: how fast something will be, and what limits it, before it runs.

mod config;
mod live;
mod paper;
mod report;
mod told;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
pub use config::{hardware, of_plan};

use crate::cli::ConfigArgs;
use crate::load::plain;

/// Arguments of `thruway estimate`.
#[derive(Args)]
pub struct EstimateArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// What the configuration receives: a capture, or a description in TOML (docs/model.md);
    /// ELEMENT=FILE for one element alone
    #[arg(long, value_name = "FILE")]
    pub traffic: Vec<String>,
    /// Bytes of a packet, if others than the traffic's
    #[arg(long, value_name = "BYTES")]
    pub packet_bytes: Option<f64>,
    /// Sessions, if others than the traffic's
    #[arg(long, value_name = "N")]
    pub sessions: Option<f64>,
    /// Packets that ports take at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub batch: u16,
    /// Threads
    #[arg(short = 'j', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Bits a second of the link, such as 10G
    #[arg(long, value_name = "BITS")]
    pub link: Option<String>,
    /// Also run it from memory, and print what it really takes
    #[arg(long)]
    pub verify: bool,
    /// Beside what a running configuration takes: where a ControlSocket of it listens (HOST:PORT, PORT
    /// or a file name)
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["verify", "traffic"])]
    pub live: Option<String>,
    /// Seconds that --live watches
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
    /// JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Estimate a model of elementary operations (docs/model.md): one of the paper's by name, a file
    /// that ends in .toml, or all of the paper's
    #[arg(long, value_name = "MODEL", num_args = 0..=1)]
    pub paper: Option<Option<String>>,
    /// Description of the host; without it, what `thruway calibrate` wrote of this one (of a model:
    /// the paper's)
    #[arg(long, value_name = "FILE")]
    pub hardware: Option<PathBuf>,
    /// Bytes of frames, check sequence included
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub sizes: Vec<u32>,
    /// Write a page with the same and with pictures: rates by size of frame, cycles by operation
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: &EstimateArgs) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.paper else { return config::main(args) };
    let name = name.as_deref();
    let host = paper::Host::load(args.hardware.as_deref())?;
    let models = paper::models(name)?;
    out!("{}", paper::estimate(&host, &models, &args.sizes));
    if let Some(file) = &args.report {
        let page = report::page(&host, &models, &args.sizes);
        std::fs::write(file, page)
            .map_err(|error| anyhow::anyhow!("{}: {}", file.display(), plain(&error)))?;
        outln!("\nreport: {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}
