//! Names of chains.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest name, in bytes (RFC 1035 section 2.3.4).
pub const NAME_LEN_MAX: usize = 63;

/// Name of a chain: a DNS label of lower-case letters, digits and inner hyphens, with 1 to 63 bytes
/// (RFC 1123 section 2.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChainName(String);

/// Why a text names no chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' names no chain: {why}; use 1 to 63 lower-case letters, digits and inner hyphens",
    name.escape_debug()
)]
pub struct NameError {
    name: String,
    why: &'static str,
}

impl ChainName {
    /// Checks a name.
    ///
    /// # Errors
    /// It is no DNS label.
    pub fn new(name: &str) -> Result<ChainName, NameError> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let why = if name.is_empty() {
            "it is empty"
        } else if name.len() > NAME_LEN_MAX {
            "it is too long"
        } else if name.starts_with('-') || name.ends_with('-') {
            "it begins or ends with a hyphen"
        } else if !name.bytes().all(allowed) {
            "it has other characters"
        } else {
            return Ok(ChainName(name.to_owned()));
        };
        let name = name.chars().take(NAME_LEN_MAX + 1).collect();
        Err(NameError { name, why })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ChainName {
    type Error = NameError;

    fn try_from(name: String) -> Result<ChainName, NameError> {
        ChainName::new(&name)
    }
}

impl From<ChainName> for String {
    fn from(name: ChainName) -> String {
        name.0
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_names_and_nothing_else_is() {
        let longest = "a".repeat(NAME_LEN_MAX);
        for name in ["a", "3com", "web-1", "xn--bcher-kva", &longest] {
            assert_eq!(ChainName::new(name).expect("a label").as_str(), name);
        }
        let too_long = "a".repeat(NAME_LEN_MAX + 1);
        for name in ["", "-a", "a-", "A", "a.b", "a_b", "a/b", "..", "a b", "ä", "a\0", &too_long]
        {
            assert!(ChainName::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_error_shows_what_was_given_and_what_to_use() {
        let error = ChainName::new("Web\n").expect_err("no label").to_string();
        assert_eq!(
            error,
            "'Web\\n' names no chain: it has other characters; \
             use 1 to 63 lower-case letters, digits and inner hyphens"
        );
    }
}
