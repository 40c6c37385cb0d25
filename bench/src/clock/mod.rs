//! `thruway-bench clock`: how exact the engine's clock is and what reading it costs, after figures
//! 3.24 to 3.26 of the thesis.

mod cost;
mod follow;
mod path;
mod report;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use super::machine::Machine;

/// Arguments of `thruway-bench clock`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How long the clock is compared with the system's
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Measurements of each cost; a row is their median
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Write all comparisons: seconds, phase, nanoseconds
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the comparisons
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the bench; it has no goals to miss.
///
/// # Errors
/// A file that cannot be written, a configuration that does not run.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let machine = Machine::pin();
    out!("{}", report::heading(&machine));
    let points = follow::follow(Duration::from_secs(u64::from(options.seconds)));
    let stretches = report::stretches(&points);
    out!("{}", report::follow(&stretches, &points));
    let costs = cost::measure(options.repeat);
    out!("{}", report::costs(&costs));
    let paths = path::measure(options.repeat)?;
    out!("{}", report::paths(&paths));
    if let Some(file) = &options.csv {
        super::report::write(file, &report::csv(&points))?;
    }
    if let Some(file) = &options.plot {
        super::report::write(file, &report::svg(&points))?;
    }
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, &stretches, &costs, &paths))?;
    }
    Ok(true)
}
