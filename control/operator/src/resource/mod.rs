//! Resources of the API group `thruway.internal` (ADR 70).

// Columns and rules of several fields have the same type.
#![allow(clippy::duplicated_attributes)]

mod chain;
mod condition;
mod function;
mod group;
mod host;
mod placement;
mod policy;

pub use chain::{
    Demand, OnHostDrain, OnHostLoss, PlacementRules, ServiceChain, ServiceChainSpec,
    ServiceChainStatus, Spread,
};
pub use condition::{Condition, Conditions, Status, now_text};
pub use function::{
    FunctionLimits, FunctionVersion, NetworkFunction, NetworkFunctionSpec, NetworkFunctionStatus,
};
pub use group::{TrustGroup, TrustGroupSpec, TrustGroupStatus};
pub use host::{AgentReport, ChainHost, ChainHostSpec, ChainHostStatus};
pub use placement::{
    ChainPlacement, ChainPlacementSpec, ChainPlacementStatus, ChainReference, DeclaredFunction,
    DeclaredGroup,
};
pub use policy::{Canary, FunctionReplicas, FunctionScaling, OnDemand};

/// The API group. The name ends in a domain that is reserved for private use, and is never
/// resolved.
pub const GROUP: &str = "thruway.internal";

/// The version of the API.
pub const VERSION: &str = "v1alpha1";

/// Field manager of the operator, and the value of `app.kubernetes.io/managed-by`.
pub const OPERATOR: &str = "thruway-operator";

/// Field manager of agents.
pub const AGENT: &str = "thruway-agent";

/// Finalizer by which the operator learns of deletions before they are done.
pub const OPERATOR_FINALIZER: &str = "thruway.internal/operator";

/// Finalizer by which a placement waits until its agent took the chain back.
pub const AGENT_FINALIZER: &str = "thruway.internal/agent";

/// Label of what the operator makes.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Label of the leases of agents.
pub const HEARTBEAT_LABEL: &str = "thruway.internal/heartbeat";
