//! TrustGroup: functions that trust one another.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// Functions that may share memory.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[kube(
    group = "thruway.internal",
    version = "v1alpha1",
    kind = "TrustGroup",
    namespaced,
    shortname = "tgroup",
    category = "thruway",
    doc = "Functions that may share memory",
    status = "TrustGroupStatus",
    derive = "PartialEq",
    printcolumn(json_path = ".spec.functions", name = "Functions", type_ = "string"),
    printcolumn(
        json_path = ".status.conditions[?(@.type==\"Resolved\")].status",
        name = "Resolved",
        type_ = "string"
    ),
    printcolumn(json_path = ".metadata.creationTimestamp", name = "Age", type_ = "date")
)]
#[serde(rename_all = "camelCase")]
pub struct TrustGroupSpec {
    /// Versions of functions of this namespace: `words@1.0`.
    #[schemars(length(min = 1, max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub functions: Vec<String>,
}

/// What is observed of a group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustGroupStatus {
    /// Generation that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// What holds of it: Resolved.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
