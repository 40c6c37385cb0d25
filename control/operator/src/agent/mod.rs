//! The agent of a host: declares at its manager what the operator assigned to it, and reports.

pub mod decide;
mod heartbeat;
mod local;
mod run;
#[cfg(test)]
mod tests;

pub use decide::{Act, Host, LocalChain, decide};
pub use run::{AgentConfig, run};
