//! ServiceChain: a chain that some hosts of the cluster are to run.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, FunctionReplicas, OnDemand};

/// A chain that hosts of the cluster run: a configuration, and rules for where it runs.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[kube(
    group = "thruway.internal",
    version = "v1alpha1",
    kind = "ServiceChain",
    namespaced,
    shortname = "tchain",
    category = "thruway",
    doc = "A chain that hosts of the cluster run: a configuration, and rules for where it runs",
    status = "ServiceChainStatus",
    derive = "PartialEq",
    printcolumn(json_path = ".status.hosts", name = "Hosts", type_ = "string"),
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
    printcolumn(
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        name = "Message",
        type_ = "string",
        priority = 1
    ),
    printcolumn(json_path = ".metadata.creationTimestamp", name = "Age", type_ = "date"),
    validation = Rule::new("self.metadata.name.size() <= 40 && !self.metadata.name.contains('--')")
        .message("give a name of at most 40 characters without '--': hosts name the chain \
                  NAMESPACE--NAME"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("give a name of lower-case letters, digits and inner hyphens")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.variables) || !has(self.functions) || \
                            !self.functions.exists(name, name in self.variables)")
        .message("a variable is in `variables` and in `functions`; rename one"),
    validation = Rule::new("!has(self.functionReplicas) || self.functionReplicas.all(name, \
                            has(self.functions) && name in self.functions)")
        .message("a variable of `functionReplicas` is not in `functions`"),
    validation = Rule::new("!has(self.onDemand) || self.onDemand.all(name, \
                            has(self.functions) && name in self.functions)")
        .message("a variable of `onDemand` is not in `functions`")
)]
pub struct ServiceChainSpec {
    /// Text in the Click language.
    #[schemars(length(min = 1, max = 524_288))]
    pub configuration: String,
    /// Values of the configuration's variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub variables: BTreeMap<String, String>,
    /// Functions that it uses, each by a variable: `words: "words@1.0 ARG..."`, with NAME@VERSION
    /// of a NetworkFunction of this namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub functions: BTreeMap<String, String>,
    /// Replicas of functions on each host, by their variables in `functions`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub function_replicas: BTreeMap<String, FunctionReplicas>,
    /// Functions that run only while they are needed, by their variables in `functions`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub on_demand: BTreeMap<String, OnDemand>,
    /// TrustGroups of this namespace, by name: each function runs in the first of them that names
    /// its version, and shares memory with the chain's other functions of that group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub groups: Vec<String>,
    /// Threads of the data plane.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 256))]
    pub threads: i32,
    /// Whether it is declared and not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Hosts that run it.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 256))]
    pub replicas: i32,
    /// Where it may run.
    #[serde(default, skip_serializing_if = "PlacementRules::is_default")]
    pub placement: PlacementRules,
    /// How long a host drains the chain before it removes it, in seconds: meanwhile sessions end,
    /// or the other host of a pair takes them over. 0 removes it at once.
    #[serde(default = "grace")]
    #[schemars(range(min = 0, max = 86_400))]
    pub drain_seconds: i32,
    /// What it needs; without this, any host has room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
}

/// Where a chain may run.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRules {
    /// Hosts that may run it; all, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub hosts: Vec<String>,
    /// Zones that it may run in; all, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub zones: Vec<String>,
    /// Labels that a host must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub host_labels: BTreeMap<String, String>,
    /// Chains of this namespace that it must share no host with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub apart_from: Vec<String>,
    /// What no two replicas share.
    #[serde(default)]
    pub spread: Spread,
    /// What happens when a host is lost.
    #[serde(default)]
    pub on_host_loss: OnHostLoss,
    /// What happens when a host drains.
    #[serde(default)]
    pub on_host_drain: OnHostDrain,
}

impl PlacementRules {
    fn is_default(&self) -> bool {
        *self == PlacementRules::default()
    }
}

/// What no two replicas of a chain share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Spread {
    /// A host.
    #[default]
    Hosts,
    /// A zone.
    Zones,
}

/// What happens to a chain when its host's agent is not heard of any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum OnHostLoss {
    /// It stays: a host that lost the API server alone goes on with its traffic.
    #[default]
    Stay,
    /// Another host takes it. An agent that cannot renew its lease stops the chain before.
    Move,
}

/// What happens to a chain when its host drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum OnHostDrain {
    /// Another host takes it; it stays as long as none can.
    #[default]
    Move,
    /// It drains there, and restarts when `drain` of the host is false. For a host of a pair: the
    /// other host serves meanwhile.
    Stop,
}

/// What a chain needs of a host, for the planner (docs/plan.md).
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// Packets a second that enter one replica.
    #[schemars(range(min = 1, max = 1_000_000_000_000_i64))]
    pub packets_per_second: i64,
    /// Cycles per packet: `thruway estimate` prints them.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub cycles: i64,
    /// Bytes of a packet, from the Ethernet header on.
    #[serde(default = "packet")]
    #[schemars(range(min = 14, max = 65536))]
    pub packet_bytes: i32,
    /// Bytes of tables and sessions that packets reach.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000_000_000_i64))]
    pub working_set_bytes: i64,
    /// Longest time that a packet may take, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub latency_us: Option<i64>,
}

/// What is observed of a chain.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceChainStatus {
    /// Generation that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Hosts that it is assigned to.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Hosts on which it runs and answers.
    #[serde(default)]
    pub ready_replicas: i32,
    /// What holds of it: Accepted, Placed, Ready.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

fn one() -> i32 {
    1
}

fn grace() -> i32 {
    30
}

fn packet() -> i32 {
    512
}
