//! Access to the API: given, and taken away.

use std::time::{Duration, SystemTime};

use crate::ChainName;
use crate::access::{Credential, Proof, Role, Token};
use crate::manager::Manager;
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

impl Manager {
    /// Gives access; returns the token where one was made, which nobody can ask for again.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn grant(&self, grant: Grant) -> Result<(Credential, Option<Token>), GrantError> {
        let Grant { name, role, expires, certificate, author } = grant;
        let created = SystemTime::now();
        if expires.is_some_and(|end| end <= created) {
            return Err(GrantError::Past);
        }
        let (proof, token) = match certificate {
            Some(proof) => (proof, None),
            None => {
                let token = Token::generate(name.clone()).map_err(GrantError::Random)?;
                (Proof::Token(token.hash()), Some(token))
            }
        };
        // Kept in milliseconds: what is known is what is read again.
        let [created, expires] = [Some(created), expires].map(|time| time.map(in_milliseconds));
        let created = created.unwrap_or(SystemTime::UNIX_EPOCH);
        let credential = Credential { name, role, proof, created, expires, author };
        let _order = self.granting.lock();
        self.store().grant(&credential)?;
        self.access().insert(credential.clone());
        Ok((credential, token))
    }

    /// Takes access away: calls are refused and event streams end from now on. Whether there was
    /// such a token or certificate.
    ///
    /// # Errors
    /// The disk's.
    pub fn revoke(&self, name: &ChainName) -> Result<bool, StoreError> {
        let _order = self.granting.lock();
        let was_there = self.store().revoke(name)?;
        self.access().remove(name);
        Ok(was_there)
    }
}

/// A time without what a store does not keep of it.
fn in_milliseconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let milliseconds = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds)
}
