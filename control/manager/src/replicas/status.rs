//! What is observed of replicas.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::advance::Seen;
use super::layout::{Layout, Phase, Rollout, SlotState};
use super::spec::ReplicasSpec;

/// The replicas of a function of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReplicasStatus {
    /// The function's variable.
    pub function: String,
    /// The element in the configuration that the replicas stand for.
    pub element: String,
    /// How many are wanted now.
    pub wanted: u16,
    /// Each of them, by number.
    pub replicas: Vec<ReplicaStatus>,
    /// A new version on its way; null if there is none.
    pub rollout: Option<RolloutStatus>,
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReplicaStatus {
    /// The output of the `Balance`; the replica's element is `rN` of the function's element.
    pub number: u32,
    /// The version that it runs, and its arguments.
    pub version: String,
    /// `starting`, `up`, or `draining`.
    pub state: String,
    /// Its weight for new sessions.
    pub weight: u32,
    /// Sessions that it has.
    pub sessions: u64,
    /// Packets that wait for it or are with it.
    pub waiting: u64,
    /// Packets that it was given.
    pub packets: u64,
    /// Packets of these that did not come back.
    pub lost: u64,
    /// Times that its process ended, hung, or broke the protocol.
    pub failures: u64,
}

/// A new version on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RolloutStatus {
    /// The version before.
    pub from: String,
    /// The new version.
    pub to: String,
    /// `starting`, `canary`, `forward`, or `back`.
    pub phase: String,
    /// Percent of new sessions that go to the new version; null if it takes or leaves all.
    pub percent: Option<u8>,
    /// Since when it is so (RFC 3339).
    #[serde(with = "crate::timestamp")]
    #[schema(value_type = String, format = DateTime)]
    pub since: SystemTime,
    /// Why it goes back; null if it does not.
    pub worse: Option<String>,
}

impl ReplicasStatus {
    /// Of a layout, and what was seen of it.
    pub fn of(
        (function, element): (&str, &str),
        layout: &Layout,
        (spec, seen): (&ReplicasSpec, &[Seen]),
    ) -> ReplicasStatus {
        let none = Seen::default();
        let slots = (0..).zip(&layout.slots).filter(|(_, slot)| slot.state != SlotState::Vacant);
        let replica = |(number, slot): (u32, &super::Slot)| {
            let seen = seen.get(number as usize).unwrap_or(&none);
            ReplicaStatus {
                number,
                version: slot.used.to_string(),
                state: slot.state.to_string(),
                weight: slot.weight,
                sessions: seen.sessions,
                waiting: seen.waiting,
                packets: seen.counts.packets,
                lost: seen.counts.lost,
                failures: seen.counts.failures,
            }
        };
        ReplicasStatus {
            function: function.to_owned(),
            element: element.to_owned(),
            wanted: layout.wanted,
            replicas: slots.map(replica).collect(),
            rollout: layout.rollout.as_ref().map(|rollout| RolloutStatus::of(rollout, spec)),
        }
    }
}

impl RolloutStatus {
    fn of(rollout: &Rollout, spec: &ReplicasSpec) -> RolloutStatus {
        let (phase, step) = match rollout.phase {
            Phase::Starting => ("starting", None),
            Phase::Step(step) => ("canary", Some(step)),
            Phase::Forward => ("forward", None),
            Phase::Back => ("back", None),
        };
        let percent = step.and_then(|step| spec.canary()?.steps.get(step).copied());
        RolloutStatus {
            from: rollout.from.to_string(),
            to: rollout.to.to_string(),
            phase: phase.to_owned(),
            percent,
            since: rollout.since,
            worse: rollout.worse.clone(),
        }
    }
}
