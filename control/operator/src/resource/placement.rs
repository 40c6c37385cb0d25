//! ChainPlacement: what one host is to run of a chain. The operator writes them, into a namespace
//! for each host; the host's agent reads no others.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, FunctionLimits, FunctionReplicas, OnDemand, OnHostLoss};

/// What one host is to run of a chain. Written by the operator.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[kube(
    group = "thruway.internal",
    version = "v1alpha1",
    kind = "ChainPlacement",
    namespaced,
    shortname = "tplacement",
    category = "thruway",
    doc = "What one host is to run of a chain; written by the operator",
    status = "ChainPlacementStatus",
    derive = "PartialEq",
    printcolumn(json_path = ".spec.chain.namespace", name = "Of", type_ = "string"),
    printcolumn(json_path = ".spec.chain.name", name = "Chain", type_ = "string"),
    printcolumn(
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        name = "Ready",
        type_ = "string"
    ),
    printcolumn(
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        name = "Reason",
        type_ = "string"
    ),
    printcolumn(json_path = ".metadata.creationTimestamp", name = "Age", type_ = "date")
)]
#[serde(rename_all = "camelCase")]
pub struct ChainPlacementSpec {
    /// The chain.
    pub chain: ChainReference,
    /// Text in the Click language.
    pub configuration: String,
    /// Values of the configuration's variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Functions that it uses, each by a variable, under the names that hosts give them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, String>,
    /// Replicas of functions, by their variables in `functions`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub function_replicas: BTreeMap<String, FunctionReplicas>,
    /// Functions that run only while they are needed, by their variables in `functions`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub on_demand: BTreeMap<String, OnDemand>,
    /// The versions that `functions` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub declared: Vec<DeclaredFunction>,
    /// Groups of trust that its functions run in, the first that names a version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub groups: Vec<DeclaredGroup>,
    /// Threads of the data plane.
    #[schemars(range(min = 1, max = 256))]
    pub threads: i32,
    /// Whether it is declared and not run.
    #[serde(default)]
    pub stopped: bool,
    /// Whether it drains: the other host of its pair takes over, or no new sessions begin and it
    /// ends with the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
    /// How long the agent drains it when the placement is deleted, in seconds.
    #[serde(default)]
    pub drain_seconds: i32,
    /// What the agent does when it cannot renew its lease: `Move` stops the chain.
    #[serde(default)]
    pub on_host_loss: OnHostLoss,
}

/// The chain that a placement belongs to.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainReference {
    /// Its namespace.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("a placement belongs to one chain for ever"))]
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Its name.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("a placement belongs to one chain for ever"))]
    #[schemars(length(max = 63))]
    pub name: String,
    /// Its generation.
    pub generation: i64,
}

/// A version of a function as a host declares it.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredFunction {
    /// Its name on the host: `NAMESPACE--NAME@VERSION`.
    pub name: String,
    /// The executable.
    pub path: String,
    /// Its SHA-256.
    pub sha256: String,
    /// What it may use.
    #[serde(default)]
    pub limits: FunctionLimits,
}

/// A group of trust as hosts declare it: each with those of its functions that the host has.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredGroup {
    /// Its name on the host: `NAMESPACE--NAME`.
    pub name: String,
    /// Its functions, under the names that hosts give them.
    pub functions: Vec<String>,
}

/// What the agent observes of a placement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainPlacementStatus {
    /// Generation of the placement that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Generation of the chain at the manager of the host; 0 if there is none.
    #[serde(default)]
    pub local_generation: i64,
    /// Times that the data plane was started again after it ended by itself.
    #[serde(default)]
    pub restarts: i32,
    /// What holds of it: Declared, Ready.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
