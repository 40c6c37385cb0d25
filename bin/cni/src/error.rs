//! Errors as a runtime reads them: a number, a sentence, and details (CNI specification 1.1,
//! section "Errors").

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Numbers of errors. Up to 99 they are the specification's, from 100 on this plugin's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// The version of the configuration is unknown.
    IncompatibleVersion = 1,
    /// The configuration has a field that is not supported.
    UnsupportedField = 2,
    /// A variable of the environment is missing or wrong.
    InvalidEnvironment = 4,
    /// The system refused something.
    Io = 5,
    /// What was read is no JSON, or not of the right form.
    Decoding = 6,
    /// The configuration is wrong.
    InvalidConfig = 7,
    /// It may work later.
    TryAgainLater = 11,
    /// No pod can be attached now (STATUS).
    NotAvailable = 50,
    /// The IPAM plugin gave no usable answer.
    Ipam = 101,
    /// An interface is not as it should be, or belongs to something else.
    Interface = 102,
}

/// An error, as it is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CniError {
    /// Its number.
    pub code: u32,
    /// What is wrong and what to do.
    #[serde(rename = "msg")]
    pub message: String,
    /// More of it; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl CniError {
    /// An error of this number.
    pub fn new(code: Code, message: impl Into<String>) -> CniError {
        CniError { code: code as u32, message: message.into(), details: String::new() }
    }

    /// The system refused a step.
    pub fn io(step: impl fmt::Display, error: impl fmt::Display) -> CniError {
        CniError::new(Code::Io, format!("{step}: {error}"))
    }

    /// A variable of the environment is wrong.
    pub fn environment(name: &str, why: impl fmt::Display) -> CniError {
        CniError::new(Code::InvalidEnvironment, format!("{name}: {why}"))
    }

    /// The configuration is wrong.
    pub fn config(why: impl Into<String>) -> CniError {
        CniError::new(Code::InvalidConfig, why)
    }

    /// An interface is not as it should be.
    pub fn interface(why: impl Into<String>) -> CniError {
        CniError::new(Code::Interface, why)
    }
}

impl CniError {
    /// As it is printed, with a version of the specification.
    pub fn printed(&self, version: &str) -> Value {
        let mut text = json!(self);
        text["cniVersion"] = version.into();
        text
    }
}

impl fmt::Display for CniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for CniError {}
