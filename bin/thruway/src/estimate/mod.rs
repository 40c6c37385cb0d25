//! `thruway estimate`: how fast something will be, and what limits it, before it runs.

mod paper;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::load::plain;

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
    /// Write a page with the same and with pictures: rates by size of frame, cycles by operation
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: &EstimateArgs) -> anyhow::Result<ExitCode> {
    let name = args.paper.as_ref().and_then(Option::as_deref);
    let host = paper::Host::load(args.hardware.as_deref())?;
    let models = paper::models(name)?;
    print!("{}", paper::estimate(&host, &models, &args.sizes));
    if let Some(file) = &args.report {
        let page = report::page(&host, &models, &args.sizes);
        std::fs::write(file, page)
            .map_err(|error| anyhow::anyhow!("{}: {}", file.display(), plain(&error)))?;
        println!("\nreport: {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}
