//! Replicas of a chain's functions: how many there are, and how a new version takes the place of
//! the one before.
//!
//! An operator declares [`ReplicasSpec`] for a function. The manager writes the replicas and the
//! `Balance` in front of them into the configuration ([`expand`]), and goes from one layout to the
//! next by hot swaps ([`Layout::advance`]). Sessions move with what the function keeps of them
//! (ADR 73).

mod advance;
pub mod expand;
pub mod judge;
mod layout;
mod scaler;
mod spec;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::SystemTime;

pub use advance::{Note, Seen, View, Window};
pub use layout::{Layout, Phase, Refusal, Rollout, Slot, SlotState};
pub use scaler::{Bound, Load, Scaler};
pub use spec::{Canary, CanarySpec, REPLICAS_MAX, ReplicasSpec, Scaling, ScalingSpec};
pub use status::{ReplicaStatus, ReplicasStatus, RolloutStatus};

use crate::ChainSpec;
use crate::kind::CheckError;

/// Checks what a chain declares of replicas.
///
/// # Errors
/// The field that is wrong.
pub fn check(spec: &ChainSpec) -> Result<(), CheckError> {
    for (variable, replicas) in &spec.replicas {
        let field = format!("replicas.{variable}");
        if !spec.functions.contains_key(variable) {
            let message = format!(
                "'{variable}' is none of `functions`; replicas are of a function that the chain uses"
            );
            return Err(CheckError::new(field, message));
        }
        let taken = |name: &String| spec.functions.contains_key(name) || is_variable(spec, name);
        if let Some(other) = (0..2).map(|nth| expand::variable_of(variable, nth)).find(taken) {
            let message = format!("'{other}' is a variable that the manager needs; rename yours");
            return Err(CheckError::new(field, message));
        }
        replicas.check(&field)?;
        expand::find(&spec.configuration, variable)?;
    }
    Ok(())
}

fn is_variable(spec: &ChainSpec, name: &str) -> bool {
    spec.variables.contains_key(name)
}

/// The replicas of a chain that begins.
pub fn at_first(spec: &ChainSpec, now: SystemTime) -> BTreeMap<String, Layout> {
    let layout = |(variable, replicas): (&String, &ReplicasSpec)| {
        let used = spec.functions.get(variable)?;
        Some((variable.clone(), Layout::new(used, replicas.count_at_first(), now)))
    };
    spec.replicas.iter().filter_map(layout).collect()
}
