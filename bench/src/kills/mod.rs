//! `thruway-bench kills`: how soon an isolated function that was killed is back, again and again,
//! under traffic with sessions, and what that costs.
//!
//! The real engine, the real element as users write it, a real process in its sandbox. Packets are
//! numbered, and the function says in each which of its processes had it: so the time is from the
//! kill to the first packet that the next process answered, and what is lost is known one by one.

mod elements;
mod killing;
mod options;
mod report;
mod results;
pub mod stamp;
mod waits;

use super::goal;
use super::machine::{self, Machine};
pub use elements::ELEMENTS;
pub use options::Options;

/// Runs the bench; false when a goal was to be met and was not.
///
/// # Errors
/// A function that does not start or is not back within seconds; a file that cannot be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let machine = Machine::look(machine::allowed().len(), None);
    out!("{}", report::heading(&machine, options));
    let results = killing::measure(options)?;
    out!("{}", report::text(&results));
    let is_met = goal::judge(&report::goals(&results), options.goals);
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, options, &results))?;
    }
    Ok(is_met)
}
