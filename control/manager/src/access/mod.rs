//! Who may use the API, and what for: roles, and the tokens and certificates that have them.

mod credential;
mod registry;
mod role;
mod token;

pub use credential::{Caller, Credential, Proof, Sha256};
pub use registry::{AccessError, CREDENTIALS_MAX, Registry};
pub use role::Role;
pub(crate) use token::hex;
pub use token::{Token, certificate_of_pem, sha256};
