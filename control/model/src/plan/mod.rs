//! Placement: which functions run on which cores of which hosts.
//!
//! A plan file ([`PlanFile`]) describes chains and hosts; an [`Estimator`] what the functions cost
//! on each host; [`Problem::plan`] finds the plan with the fewest hosts, of these the one with the
//! fewest cores, and of these the one with the most headroom on its busiest core. The formulas
//! stand in docs/plan.md.

mod balance;
mod breaking;
mod choices;
mod construct;
mod error;
mod file;
mod hops;
mod models;
mod problem;
mod report;
mod search;
mod shapes;
mod usage;

#[cfg(test)]
mod tests;

pub use breaking::{Break, Most, Reason};
pub use error::PlanError;
pub use file::{Chain, Function, HostEntry, PlanFile, Run};
pub use problem::{Estimator, FunctionLoad, Problem};
pub use report::{Answer, ChainPlan, CorePlan, HostPlan, LinkPlan, Plan, SocketPlan, TaskPlan};
pub use usage::Limit;
