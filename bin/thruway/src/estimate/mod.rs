//! `thruway estimate`: how fast something will be, and what limits it, before it runs.

mod paper;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Arguments of `thruway estimate`.
#[derive(Args)]
pub struct EstimateArgs {
    /// Estimate a model of elementary operations (docs/model.md): one of the paper's by name, a file
    /// that ends in .toml, or all of the paper's
    #[arg(long, value_name = "MODEL", num_args = 0..=1, required = true)]
    pub paper: Option<Option<String>>,
    /// Description of the host; without it, that of the paper's
    #[arg(long, value_name = "FILE")]
    pub hardware: Option<PathBuf>,
    /// Bytes of frames, check sequence included
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub sizes: Vec<u32>,
}

/// Runs the command.
pub fn main(args: &EstimateArgs) -> anyhow::Result<ExitCode> {
    let name = args.paper.as_ref().and_then(Option::as_deref);
    print!("{}", paper::estimate(name, args.hardware.as_deref(), &args.sizes)?);
    Ok(ExitCode::SUCCESS)
}
