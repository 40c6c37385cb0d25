//! `thruway estimate`: how fast something will be, and what limits it, before it runs.

mod answer;
mod args;
mod config;
mod live;
mod paper;
mod report;

use std::process::ExitCode;

pub use answer::lacks_isolation;
pub use args::EstimateArgs;
pub use config::{hardware, of_plan};

use crate::load::plain;

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
