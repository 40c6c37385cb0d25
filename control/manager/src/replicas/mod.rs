//! Replicas of a chain's functions: how many there are, and how a new version takes the place of
//! the one before.
//!
//! An operator declares [`ReplicasSpec`] for a function. The manager writes the replicas and the
//! `Balance` in front of them into the configuration ([`crate::expansion`]), and goes from one
//! layout to the next by hot swaps ([`Layout::advance`]). Sessions move with what the function
//! keeps of them (ADR 73).

mod advance;
mod forecast;
pub mod judge;
mod layout;
mod scaler;
mod spec;
mod status;
#[cfg(test)]
mod tests;

pub use advance::{Note, Seen, View, Window};
pub use layout::{Layout, Phase, Refusal, Rollout, Slot, SlotState};
pub use scaler::{Bound, Load, Scaler};
pub use spec::{Canary, CanarySpec, REPLICAS_MAX, ReplicasSpec, Scaling, ScalingSpec};
pub use status::{ReplicaStatus, ReplicasStatus, RolloutStatus};
