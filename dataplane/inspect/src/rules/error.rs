//! Why a rule is refused.

use std::fmt;

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It wants something that is not served: an option, a protocol, a construct of regular
    /// expressions.
    Unsupported {
        /// Its name, as written.
        what: String,
        /// More of it; may be empty.
        why: String,
    },
    /// It is not written as rules are, or contradicts itself.
    Wrong(String),
    /// It is larger than the limits allow.
    TooLarge(String),
    /// Another rule has its number.
    Duplicate {
        /// `sid`
        sid: u32,
        /// Line where the other begins.
        first: usize,
    },
}

impl Reason {
    /// Something that is not served.
    pub fn unsupported(what: impl Into<String>, why: impl Into<String>) -> Reason {
        Reason::Unsupported { what: what.into(), why: why.into() }
    }

    /// A mistake.
    pub fn wrong(text: impl Into<String>) -> Reason {
        Reason::Wrong(text.into())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unsupported { what, why } if why.is_empty() => {
                write!(f, "'{what}' is not supported")
            }
            Reason::Unsupported { what, why } => write!(f, "'{what}' is not supported: {why}"),
            Reason::Wrong(text) | Reason::TooLarge(text) => f.write_str(text),
            Reason::Duplicate { sid, first } => {
                write!(f, "sid {sid} belongs to the rule of line {first}")
            }
        }
    }
}

/// A rule that is refused, and one of the reasons.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RuleError {
    /// Line where it begins, from 1.
    pub line: usize,
    /// Its `sid`, where it was read.
    pub sid: Option<u32>,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(sid) = self.sid {
            write!(f, " (sid {sid})")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for RuleError {}

/// The beginning of a text, for an error.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}
