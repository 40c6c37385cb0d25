//! What access is given.

use std::time::SystemTime;

use crate::ChainName;
use crate::access::{Proof, Role};
use crate::store::StoreError;

/// Access to be given.
#[derive(Debug)]
pub struct Grant {
    /// Its name.
    pub name: ChainName,
    /// What its owner may do.
    pub role: Role,
    /// From when on it is refused, if ever.
    pub expires: Option<SystemTime>,
    /// Proof of a certificate; a token is made where it is missing.
    pub certificate: Option<Proof>,
    /// Who gives it.
    pub author: String,
}

/// Why no access was given.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// It would never have been of use.
    #[error("it would have expired already; give a time to come")]
    Past,
    /// There is no secret.
    #[error("{0}")]
    Random(&'static str),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}
