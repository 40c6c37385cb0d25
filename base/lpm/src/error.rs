//! Reasons to refuse a change of a table.

use crate::limits::MAX_HOPS;

/// Why a route was not added, replaced or removed. The table is as it was before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// An insert found a route for this very prefix; replace it or remove it first.
    #[error("there is already a route for this prefix")]
    Exists,
    /// A removal found no route for this very prefix.
    #[error("no route for this prefix")]
    NotFound,
    /// Every one of the [`MAX_HOPS`] different (gateway, port) pairs is in use.
    #[error("more than {} different gateway and port pairs", MAX_HOPS)]
    HopsExhausted,
    /// Prefixes longer than /24 lie in too many different /24 networks.
    #[error("prefixes longer than /24 in more than {} different /24s", crate::limits::GROUPS)]
    GroupsExhausted,
    /// The system has no memory for the table.
    #[error("out of memory for a table of routes")]
    NoMemory,
}
