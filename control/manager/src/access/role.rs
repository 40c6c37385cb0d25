//! Roles: each may do what the ones before it may.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a caller may do. Each role may do what the ones before it may.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read everything but the list of credentials.
    View,
    /// Change chains, and write their handlers.
    Operate,
    /// Give and revoke access.
    Administer,
}

/// The roles, the weakest first.
const ALL: [Role; 3] = [Role::View, Role::Operate, Role::Administer];

impl Role {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::View => "view",
            Role::Operate => "operate",
            Role::Administer => "administer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let found = ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| {
            format!("'{}' is no role; use view, operate or administer", text.escape_debug())
        })
    }
}
