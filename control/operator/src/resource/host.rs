//! ChainHost: a host that runs chains.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// A host that runs chains.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[kube(
    group = "thruway.internal",
    version = "v1alpha1",
    kind = "ChainHost",
    shortname = "thost",
    category = "thruway",
    doc = "A host that runs chains",
    status = "ChainHostStatus",
    derive = "PartialEq",
    printcolumn(json_path = ".spec.zone", name = "Zone", type_ = "string"),
    printcolumn(json_path = ".spec.drain", name = "Drain", type_ = "boolean"),
    printcolumn(
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        name = "Ready",
        type_ = "string"
    ),
    printcolumn(json_path = ".status.chains", name = "Chains", type_ = "integer"),
    printcolumn(json_path = ".status.agent.version", name = "Version", type_ = "string"),
    printcolumn(json_path = ".metadata.creationTimestamp", name = "Age", type_ = "date"),
    validation = Rule::new("self.metadata.name.size() <= 48 && \
                            self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("give a name of at most 48 lower-case letters, digits and inner hyphens")
)]
#[serde(rename_all = "camelCase")]
pub struct ChainHostSpec {
    /// The zone that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub zone: Option<String>,
    /// Whether chains are to leave it.
    #[serde(default)]
    pub drain: bool,
    /// Cores that chains may have; all of its description, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub cores: Option<i32>,
    /// Description of its hardware (TOML), as `thruway calibrate` writes it; the agent's, if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub hardware: Option<String>,
}

/// What is observed of a host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainHostStatus {
    /// Generation that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Namespace of what it is to run.
    #[serde(default)]
    pub namespace: String,
    /// Chains that are assigned to it.
    #[serde(default)]
    pub chains: i32,
    /// What holds of it: Ready.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What its agent reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentReport>,
}

/// What an agent reports of its host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentReport {
    /// Version of the agent.
    #[serde(default)]
    pub version: String,
    /// Whether the manager of the host answers; if not, why.
    #[serde(default)]
    pub manager: String,
    /// Chains that the manager keeps and that nobody in the cluster asked for: they are left alone.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// Description of its hardware (TOML).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
}
