//! The operator: assigns chains to hosts, and reports what becomes of them.

mod assign;
mod capacity;
mod carry_out;
pub mod decide;
pub mod leader;
mod overlay;
mod resolve;
mod run;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod world;

pub use decide::{Action, decide};
pub use run::{OperatorConfig, run};
pub use world::{Heartbeat, World};
