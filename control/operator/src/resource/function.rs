//! NetworkFunction: executables that chains use.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// A function and its versions: executables that are on the hosts.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[kube(
    group = "thruway.internal",
    version = "v1alpha1",
    kind = "NetworkFunction",
    namespaced,
    shortname = "tfunction",
    category = "thruway",
    doc = "A function and its versions: executables that are on the hosts",
    status = "NetworkFunctionStatus",
    derive = "PartialEq",
    printcolumn(json_path = ".spec.versions[*].version", name = "Versions", type_ = "string"),
    printcolumn(json_path = ".status.usedBy", name = "Used-By", type_ = "string"),
    printcolumn(json_path = ".metadata.creationTimestamp", name = "Age", type_ = "date"),
    validation = Rule::new("self.metadata.name.size() <= 40 && !self.metadata.name.contains('--')")
        .message("give a name of at most 40 characters without '--': hosts name the function \
                  NAMESPACE--NAME"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("give a name of lower-case letters, digits and inner hyphens")
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFunctionSpec {
    /// Versions, side by side.
    #[schemars(length(min = 1, max = 64))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["version"]
    ))]
    pub versions: Vec<FunctionVersion>,
}

/// A version of a function.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.sha256 == oldSelf.sha256")
    .message("a version does not change; declare another version"))]
pub struct FunctionVersion {
    /// Its name: letters, digits, '.', '-' and '_'.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub version: String,
    /// The executable on each host: an absolute path without links, where nobody else can write.
    #[schemars(length(max = 4095), regex(pattern = r"^/"))]
    pub path: String,
    /// SHA-256 of the executable.
    #[schemars(length(min = 64, max = 64), regex(pattern = r"^[0-9a-f]+$"))]
    pub sha256: String,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<FunctionLimits>,
}

/// What a function may use, as the element Nf takes it.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionLimits {
    /// Memory: `256M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub memory: Option<String>,
    /// Processors that it runs on: `1 2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub cpus: Option<String>,
    /// It is restarted when it has a packet for longer: `500ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub hang: Option<String>,
    /// Time that it has to begin: `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub attach_timeout: Option<String>,
}

/// What is observed of a function.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFunctionStatus {
    /// Generation that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Chains of the namespace that use it.
    #[serde(default)]
    pub used_by: Vec<String>,
    /// What holds of it: InUse.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
