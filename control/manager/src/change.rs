//! What a change did, or why it was not made.

use crate::kind::CheckError;
use crate::prospect::Step;
use crate::store::{Put, StoreError};

/// Header of a request that changes what is managed: on whose behalf it is made.
pub const MANAGED_BY_HEADER: &str = "thruway-managed-by";

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The specification is wrong.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is managed by somebody else.
    #[error(
        "it is managed by '{0}', which would undo this change; change it there (in a cluster: the \
         ServiceChain or NetworkFunction of that name), or send the header {MANAGED_BY_HEADER}: {0}"
    )]
    Managed(String),
}

/// What a change did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Generation afterwards.
    pub put: Put,
    /// Whether the resource was not there before.
    pub created: bool,
    /// What the check warns of.
    pub warnings: String,
    /// A unified diff of the specifications.
    pub diff: String,
    /// What the manager does about it, or would do.
    pub plan: Vec<Step>,
}
