//! What the elements of a context of streams ask of it.

use thruway_payload::{Layer, Needs};

/// Requirements of the elements of a configuration on a context, passed to its first and its last
/// element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamPlan {
    /// The union of the needs of all functions in it.
    pub needs: Needs,
    /// Elements where it begins.
    pub enters: Vec<u32>,
    /// Elements where it ends.
    pub leaves: Vec<u32>,
    /// Functions in it, with their needs.
    pub functions: Vec<(u32, Needs)>,
    /// The layer of the context that it stands in.
    pub within: Option<Layer>,
}
