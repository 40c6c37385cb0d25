//! Files of TOML: descriptions, plans, models.

use std::path::Path;

use serde::de::DeserializeOwned;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read or written.
    #[error("{path}: {why}")]
    Access {
        /// Which.
        path: String,
        /// In the system's words.
        why: std::io::Error,
    },
    /// It is not such a file.
    #[error("{path}: {why}")]
    Text {
        /// Which.
        path: String,
        /// With line and column.
        why: String,
    },
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    let access = |why| FileError::Access { path: path.display().to_string(), why };
    std::fs::read_to_string(path).map_err(access)
}

/// What a text says; `path` is what errors call it.
pub(crate) fn parse<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|why| FileError::Text {
        path: path.to_owned(),
        why: why.to_string().trim_end().to_owned(),
    })
}
