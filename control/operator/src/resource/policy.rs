//! How many processes run a function of a chain, and when: as its host's manager takes it
//! (docs/manager.md).

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_manager::on_demand::OnDemandSpec;
use thruway_manager::replicas::{CanarySpec, ReplicasSpec, ScalingSpec};

/// Replicas of a function, on each host that runs the chain.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.count) || !has(self.scaling)")
    .message("it has count and scaling; keep one"))]
pub struct FunctionReplicas {
    /// How many; one if neither this nor `scaling` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub count: Option<i32>,
    /// Bounds between which their number follows the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<FunctionScaling>,
    /// A new version of the function begins with a share of the new sessions. Without this it gets
    /// all sessions as soon as it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
}

/// Bounds between which the number of replicas follows the load.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.min <= self.max")
    .message("give max as much as min at least"))]
pub struct FunctionScaling {
    /// Fewest replicas.
    #[schemars(range(min = 1, max = 64))]
    pub min: i32,
    /// Most replicas.
    #[schemars(range(min = 1, max = 64))]
    pub max: i32,
    /// Packets that wait for each replica, on average, at which another one is added; 128 if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub waiting: Option<i32>,
    /// How long one replica fewer must have been enough before one is taken away; `60s` if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub calm: Option<String>,
    /// How far ahead the load is forecast, so that another replica is there before packets wait; it
    /// is not forecast if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub ahead: Option<String>,
}

/// How a new version of a function proves itself; it is taken back when it exceeds a limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    /// Percent of the new sessions that go to the new version, in each step; 10, 50 if not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub steps: Vec<i32>,
    /// How long each step lasts; `30s` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub window: Option<String>,
    /// Packets that the new version must have had in a step before it is judged; 100 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000_000_i64))]
    pub packets: Option<i64>,
    /// By how much its part of lost packets may exceed that of the old version; `1%` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub drops: Option<String>,
    /// How often its process may fail in a step; 0 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub failures: Option<i32>,
    /// Packets that may wait for it, on average, while fewer wait for the old version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub waiting: Option<i32>,
    /// How long 99 % of its batches may take while those of the old version take less: `2ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub latency: Option<String>,
}

/// When a function runs that is not always needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OnDemand {
    /// A handler of the chain whose value is a number, `detector.flooded`: the function runs while
    /// that is more than 0.
    #[schemars(length(min = 1, max = 1024))]
    pub when: String,
    /// How long it must not have been needed before it is taken away; `5s` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub calm: Option<String>,
}

/// A number within its schema's bounds; the manager refuses 0 where that has no meaning.
fn number<A, B: TryFrom<A> + Default>(value: A) -> B {
    B::try_from(value).unwrap_or_default()
}

impl From<&FunctionReplicas> for ReplicasSpec {
    fn from(replicas: &FunctionReplicas) -> ReplicasSpec {
        ReplicasSpec {
            count: replicas.count.map(number),
            scaling: replicas.scaling.as_ref().map(ScalingSpec::from),
            canary: replicas.canary.as_ref().map(CanarySpec::from),
        }
    }
}

impl From<&FunctionScaling> for ScalingSpec {
    fn from(scaling: &FunctionScaling) -> ScalingSpec {
        ScalingSpec {
            min: number(scaling.min),
            max: number(scaling.max),
            waiting: scaling.waiting.map(number),
            calm: scaling.calm.clone(),
            ahead: scaling.ahead.clone(),
        }
    }
}

impl From<&Canary> for CanarySpec {
    fn from(canary: &Canary) -> CanarySpec {
        CanarySpec {
            steps: canary.steps.iter().map(|step| number(*step)).collect(),
            window: canary.window.clone(),
            packets: canary.packets.map(number),
            drops: canary.drops.clone(),
            failures: canary.failures.map(number),
            waiting: canary.waiting.map(number),
            latency: canary.latency.clone(),
        }
    }
}

impl From<&OnDemand> for OnDemandSpec {
    fn from(policy: &OnDemand) -> OnDemandSpec {
        OnDemandSpec { when: policy.when.clone(), calm: policy.calm.clone() }
    }
}
