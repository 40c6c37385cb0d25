//! Names of resources and of credentials.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest name, in bytes (RFC 1035 section 2.3.4).
pub const NAME_LEN_MAX: usize = 63;

/// Name of a chain or a credential: a DNS label of lower-case letters, digits and inner hyphens,
/// with 1 to 63 bytes (RFC 1123 section 2.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChainName(String);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no name: {why}; use {rule}", name.escape_debug())]
pub struct NameError {
    name: String,
    why: &'static str,
    rule: &'static str,
}

/// What a label must be.
const LABEL: &str = "1 to 63 lower-case letters, digits and inner hyphens";

/// What the name of a function must be.
const FUNCTION: &str = "NAME@VERSION, as ids@1.2.0: NAME of 1 to 63 lower-case letters, digits and \
                        inner hyphens, VERSION of 1 to 63 letters, digits, '.', '-' and '_'";

impl NameError {
    fn new(name: &str, why: &'static str, rule: &'static str) -> NameError {
        NameError { name: name.chars().take(2 * NAME_LEN_MAX + 2).collect(), why, rule }
    }
}

impl ChainName {
    /// Checks a name.
    ///
    /// # Errors
    /// It is no DNS label.
    pub fn new(name: &str) -> Result<ChainName, NameError> {
        match label_error(name) {
            None => Ok(ChainName(name.to_owned())),
            Some(why) => Err(NameError::new(name, why, LABEL)),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no DNS label, if it is none.
fn label_error(text: &str) -> Option<&'static str> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > NAME_LEN_MAX {
        Some("it is too long")
    } else if text.starts_with('-') || text.ends_with('-') {
        Some("it begins or ends with a hyphen")
    } else if !text.bytes().all(allowed) {
        Some("it has other characters")
    } else {
        None
    }
}

/// Name of a version of a function: `ids@1.2.0` (ADR 52).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FunctionName(String);

impl FunctionName {
    /// Checks a name.
    ///
    /// # Errors
    /// It has no version, or a part of it is wrong.
    pub fn new(text: &str) -> Result<FunctionName, NameError> {
        let Some((name, version)) = text.split_once('@') else {
            return Err(NameError::new(text, "it has no version", FUNCTION));
        };
        match label_error(name).or(version_error(version)) {
            None => Ok(FunctionName(text.to_owned())),
            Some(why) => Err(NameError::new(text, why, FUNCTION)),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without the version: `ids`.
    pub fn function(&self) -> &str {
        self.0.split_once('@').map_or(&self.0, |(name, _)| name)
    }

    /// The version: `1.2.0`.
    pub fn version(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, version)| version)
    }
}

/// Why a text is no version, if it is none.
fn version_error(text: &str) -> Option<&'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if text.is_empty() {
        Some("its version is empty")
    } else if text.len() > NAME_LEN_MAX {
        Some("its version is too long")
    } else if !text.bytes().all(allowed) {
        Some("its version has other characters")
    } else {
        None
    }
}

/// Name of a trust group: a DNS label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupName(ChainName);

impl GroupName {
    /// Checks a name.
    ///
    /// # Errors
    /// It is no DNS label.
    pub fn new(name: &str) -> Result<GroupName, NameError> {
        ChainName::new(name).map(GroupName)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
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

impl TryFrom<String> for FunctionName {
    type Error = NameError;

    fn try_from(name: String) -> Result<FunctionName, NameError> {
        FunctionName::new(&name)
    }
}

impl From<FunctionName> for String {
    fn from(name: FunctionName) -> String {
        name.0
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
            "'Web\\n' is no name: it has other characters; \
             use 1 to 63 lower-case letters, digits and inner hyphens"
        );
    }

    #[test]
    fn a_function_is_named_with_its_version() {
        let longest = format!("{0}@{0}", "a".repeat(NAME_LEN_MAX));
        for text in ["ids@1", "ids@1.2.0-rc_1", "a-b@V2", &longest] {
            let name = FunctionName::new(text).expect("a name");
            assert_eq!(format!("{}@{}", name.function(), name.version()), text);
        }
        let too_long = format!("a@{}", "1".repeat(NAME_LEN_MAX + 1));
        for text in ["", "ids", "@1", "ids@", "Ids@1", "ids@1@2", "ids@1/2", "ids@ 1", &too_long] {
            assert!(FunctionName::new(text).is_err(), "{text:?}");
        }
        let error = FunctionName::new("ids").expect_err("no version").to_string();
        assert!(error.starts_with("'ids' is no name: it has no version; use NAME@"), "{error}");
    }
}
