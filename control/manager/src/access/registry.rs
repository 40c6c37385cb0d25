//! The credentials that there are, at hand for each call.

use std::collections::BTreeMap;
use std::time::SystemTime;

use parking_lot::RwLock;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

use super::credential::{Caller, Credential, Proof, Sha256};
use super::role::Role;
use super::token::Token;
use crate::ChainName;
use crate::timestamp;

/// Credentials at a time.
pub const CREDENTIALS_MAX: usize = 256;

/// Why somebody was not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The text is no token.
    #[error("this is no token; send it as `thruway token create` printed it")]
    Malformed,
    /// There is no such credential. Whether the name or the secret is wrong is not reported.
    #[error(
        "this {kind} is not known: it was revoked, or it is another manager's; `thruway token \
         create` makes one"
    )]
    Unknown {
        /// `token` or `certificate`.
        kind: &'static str,
    },
    /// Its time is over.
    #[error("{kind} '{name}' expired at {}; `thruway token create` makes another one",
        timestamp::text(*at))]
    Expired {
        /// `token` or `certificate`.
        kind: &'static str,
        /// Its name.
        name: ChainName,
        /// Since when.
        at: SystemTime,
    },
}

/// The credentials that there are.
#[derive(Debug)]
pub struct Registry {
    all: RwLock<BTreeMap<String, Credential>>,
    /// Counts changes.
    changed: watch::Sender<u64>,
}

impl Registry {
    /// With these.
    pub fn new(all: Vec<Credential>) -> Registry {
        let all = all.into_iter().map(|one| (one.name.to_string(), one)).collect();
        Registry { all: RwLock::new(all), changed: watch::Sender::new(0) }
    }

    /// Adds one that was kept.
    pub(crate) fn insert(&self, one: Credential) {
        self.all.write().insert(one.name.to_string(), one);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Removes one that is not kept any more; from now on it is refused.
    pub(crate) fn remove(&self, name: &ChainName) {
        self.all.write().remove(name.as_str());
        self.changed.send_modify(|count| *count += 1);
    }

    /// All, by name.
    pub fn list(&self) -> Vec<Credential> {
        self.all.read().values().cloned().collect()
    }

    /// Reports on each change.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Who shows this token.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn admit_token(&self, text: &str, now: SystemTime) -> Result<Caller, AccessError> {
        let token = Token::parse(text).ok_or(AccessError::Malformed)?;
        let all = self.all.read();
        let found = all.get(token.name.as_str());
        // A name that is not there takes as long as a wrong secret.
        let kept = match found.map(|one| one.proof) {
            Some(Proof::Token(hash)) => hash,
            _ => Sha256::default(),
        };
        let same = bool::from(kept.as_slice().ct_eq(token.hash().as_slice()));
        valid(found.filter(|_| same), "token", now)
    }

    /// Who proved to have the key of the certificate with this hash.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn admit_certificate(&self, hash: &Sha256, now: SystemTime) -> Result<Caller, AccessError> {
        let all = self.all.read();
        // A certificate is no secret: anybody may see how long this takes.
        let found = all.values().find(|one| one.proof == Proof::Certificate(*hash));
        valid(found, "certificate", now)
    }

    /// Whether somebody who was let in still would be.
    pub fn is_valid(&self, caller: &Caller, now: SystemTime) -> bool {
        match caller {
            Caller::Local { .. } => true,
            // Another one of that name may have been made.
            Caller::Remote(one) => {
                !one.is_expired(now) && self.all.read().get(one.name.as_str()) == Some(one)
            }
        }
    }
}

fn valid(
    found: Option<&Credential>,
    kind: &'static str,
    now: SystemTime,
) -> Result<Caller, AccessError> {
    let one = found.ok_or(AccessError::Unknown { kind })?;
    match one.expires.filter(|_| one.is_expired(now)) {
        Some(at) => Err(AccessError::Expired { kind, name: one.name.clone(), at }),
        None => Ok(Caller::Remote(one.clone())),
    }
}

impl Caller {
    /// Whether its role is enough.
    pub fn may(&self, needed: Role) -> bool {
        self.role() >= needed
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn credential(name: &str, proof: Proof) -> Credential {
        Credential {
            name: ChainName::new(name).expect("a name"),
            role: Role::View,
            proof,
            created: UNIX_EPOCH,
            expires: Some(UNIX_EPOCH + Duration::from_secs(10)),
            author: "uid 0".into(),
        }
    }

    fn token(name: &str) -> Token {
        Token::generate(ChainName::new(name).expect("a name")).expect("random bytes")
    }

    #[test]
    fn a_token_is_let_in_until_it_expires_or_is_revoked() {
        let (mine, other) = (token("ci"), token("ci"));
        let registry = Registry::new(vec![credential("ci", Proof::Token(mine.hash()))]);
        let caller = registry.admit_token(&mine.text(), UNIX_EPOCH).expect("known");
        assert_eq!(caller.author(), "token ci");
        let unknown = AccessError::Unknown { kind: "token" };
        assert_eq!(registry.admit_token(&other.text(), UNIX_EPOCH), Err(unknown.clone()));
        assert_eq!(registry.admit_token(&token("no").text(), UNIX_EPOCH), Err(unknown.clone()));
        assert_eq!(registry.admit_token("x", UNIX_EPOCH), Err(AccessError::Malformed));
        let end = UNIX_EPOCH + Duration::from_secs(10);
        assert!(registry.is_valid(&caller, end - Duration::from_nanos(1)));
        assert!(!registry.is_valid(&caller, end));
        let expired = registry.admit_token(&mine.text(), end).expect_err("over");
        assert!(expired.to_string().contains("'ci' expired at 1970-01-01T00:00:10"), "{expired}");
        // Another one of the same name does not let the old one in again.
        registry.remove(&credential("ci", Proof::Token(mine.hash())).name);
        assert!(!registry.is_valid(&caller, UNIX_EPOCH));
        registry.insert(credential("ci", Proof::Token(other.hash())));
        assert!(!registry.is_valid(&caller, UNIX_EPOCH));
        assert_eq!(registry.admit_token(&mine.text(), UNIX_EPOCH), Err(unknown));
    }

    /// What is kept of a certificate is no secret, so it must not be one of a token.
    #[test]
    fn a_certificate_is_no_token() {
        let mine = token("ci");
        let registry = Registry::new(vec![credential("ci", Proof::Certificate(mine.hash()))]);
        assert!(registry.admit_token(&mine.text(), UNIX_EPOCH).is_err());
        assert!(registry.admit_certificate(&mine.hash(), UNIX_EPOCH).is_ok());
        assert!(registry.admit_certificate(&Sha256::default(), UNIX_EPOCH).is_err());
    }
}
