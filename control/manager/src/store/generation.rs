//! One entry of a resource's history.

use std::time::SystemTime;

use crate::ChainSpec;

/// One specification of a resource, or its deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation<S = ChainSpec> {
    /// Name of the resource.
    pub name: String,
    /// 1 for the first, then one more for each change; a resource that is declared again goes on
    /// counting.
    pub number: u64,
    /// When the change was made, in milliseconds.
    pub time: SystemTime,
    /// Who made it: `uid 0`.
    pub author: String,
    /// What was asked for; `None` if the resource was deleted.
    pub spec: Option<S>,
}
