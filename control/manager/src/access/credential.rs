//! What proves who calls.

use std::time::SystemTime;

use super::role::Role;
use crate::ChainName;

/// A hash (FIPS 180-4).
pub type Sha256 = [u8; 32];

/// What a caller must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// A token whose secret has this hash.
    Token(Sha256),
    /// The key of the certificate (DER) that has this hash.
    Certificate(Sha256),
}

impl Proof {
    /// What it is a proof of: `token`, `certificate`.
    pub fn kind(self) -> &'static str {
        match self {
            Proof::Token(_) => "token",
            Proof::Certificate(_) => "certificate",
        }
    }

    /// The hash.
    pub fn hash(&self) -> &Sha256 {
        match self {
            Proof::Token(hash) | Proof::Certificate(hash) => hash,
        }
    }
}

/// Access that was given to somebody, under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Names it: a DNS label.
    pub name: ChainName,
    /// What its owner may do.
    pub role: Role,
    /// What its owner must show.
    pub proof: Proof,
    /// When it was made, in milliseconds.
    pub created: SystemTime,
    /// From when on it is refused, if ever.
    pub expires: Option<SystemTime>,
    /// Who made it: `uid 0`.
    pub author: String,
}

impl Credential {
    /// Whether it is refused for its age.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

/// Somebody who was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A process of this host, as the kernel shows it.
    Local {
        /// Its user.
        uid: u32,
    },
    /// The owner of a token or certificate.
    Remote(Credential),
}

impl Caller {
    /// How it stands in histories and in the audit log: `uid 0`, `token ci`.
    pub fn author(&self) -> String {
        match self {
            Caller::Local { uid } => format!("uid {uid}"),
            Caller::Remote(one) => format!("{} {}", one.proof.kind(), one.name),
        }
    }

    /// What it may do. This user and root may do everything: they could write the state anyway.
    pub fn role(&self) -> Role {
        match self {
            Caller::Local { .. } => Role::Administer,
            Caller::Remote(one) => one.role,
        }
    }
}
