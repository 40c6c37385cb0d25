//! Versions of the specification.

use serde_json::{Value, json};

use crate::error::{CniError, Code};

/// A version that is supported, in the order of their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.3.0
    V030,
    /// 0.3.1
    V031,
    /// 0.4.0: CHECK
    V040,
    /// 1.0.0: results without the version of IP
    V100,
    /// 1.1.0: GC and STATUS; results with MTU and more of routes
    V110,
}

impl Version {
    /// All of them.
    const ALL: [Version; 5] =
        [Version::V030, Version::V031, Version::V040, Version::V100, Version::V110];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Version::V030 => "0.3.0",
            Version::V031 => "0.3.1",
            Version::V040 => "0.4.0",
            Version::V100 => "1.0.0",
            Version::V110 => "1.1.0",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// It is not supported.
    pub fn parse(word: &str) -> Result<Version, CniError> {
        Version::ALL.into_iter().find(|one| one.word() == word).ok_or_else(|| {
            let all = Version::ALL.map(Version::word).join(", ");
            let why = format!("cniVersion '{word}' is not supported; these are: {all}");
            CniError::new(Code::IncompatibleVersion, why)
        })
    }

    /// The latest one.
    pub const LATEST: Version = Version::V110;
}

/// The answer to VERSION.
pub fn answer(asked: Option<&str>) -> Value {
    let all = Version::ALL.map(Version::word);
    json!({"cniVersion": asked.unwrap_or(Version::LATEST.word()), "supportedVersions": all})
}
