//! `thruway-bench manager`: how long the manager's answers take while a chain of many elements
//! forwards packets, and what that costs the chain.
//!
//! A real manager and a real data plane: the packets come from memory, so every cycle that a scrape
//! took from their thread would show in their rate.

mod daemon;
mod measure;
mod options;
mod report;

use super::goal;
use super::machine::{self, Machine};
pub use options::Options;

/// Runs the bench; false when a goal was to be met and was not.
///
/// # Errors
/// A program that is not there, a manager or a chain that does not start; a file that cannot be
/// written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let machine = Machine::look(machine::allowed().len(), None);
    out!("{}", report::heading(&machine, options));
    let results = measure::measure(options)?;
    out!("{}", report::text(&results));
    let is_met = goal::judge(&report::goals(&results), options.goals);
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, options, &results))?;
    }
    Ok(is_met)
}
