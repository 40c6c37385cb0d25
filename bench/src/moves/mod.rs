//! `thruway-bench moves`: how long it takes to move a million sessions from one replica of an
//! isolated function to another one under traffic, how long a session's packets wait meanwhile, and
//! whether any is lost or overtaken.
//!
//! The function counts the packets of each session in its scratch and writes the count into the
//! packet: so each session's packets say whether its scratch went along.

pub mod elements;
mod moving;
mod options;
mod outcome;
mod report;

use super::goal;
use super::machine::{self, Machine};
pub use options::Options;

/// Runs the bench; false when a goal was to be met and was not.
///
/// # Errors
/// A function that does not start, a move that does not end; a file that cannot be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let machine = Machine::look(machine::allowed().len(), None);
    out!("{}", report::heading(&machine, options));
    let results = moving::measure(options)?;
    out!("{}", report::text(&results));
    let is_met = goal::judge(&report::goals(&results), options.goals);
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, options, &results))?;
    }
    Ok(is_met)
}
