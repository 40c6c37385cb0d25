//! What was found: something that is well, that could be better, or that is missing.

use serde_json::{Value, json};

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rating {
    /// Something does not work without it.
    Missing,
    /// It could be faster.
    Better,
    /// Nobody reports.
    Unknown,
    /// There is nothing to do.
    Good,
}

impl Rating {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Rating::Missing => "missing",
            Rating::Better => "better",
            Rating::Unknown => "unknown",
            Rating::Good => "good",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    pub state: Rating,
    /// How it is.
    pub status: String,
    /// What to do.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(state: Rating, what: &str, status: impl Into<String>) -> Finding {
        Finding { what: what.to_owned(), state, status: status.into(), remedy: None }
    }

    /// There is nothing to do.
    pub fn good(what: &str, status: impl Into<String>) -> Finding {
        Finding::new(Rating::Good, what, status)
    }

    /// Nobody reports.
    pub fn unknown(what: &str, status: impl Into<String>) -> Finding {
        Finding::new(Rating::Unknown, what, status)
    }

    /// It could be faster if one did this.
    pub fn better(what: &str, status: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..Finding::new(Rating::Better, what, status) }
    }

    /// Something works only if one does this.
    pub fn missing(what: &str, status: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..Finding::new(Rating::Missing, what, status) }
    }

    /// As JSON.
    pub fn value(&self) -> Value {
        json!({
            "what": self.what,
            "state": self.state.name(),
            "found": self.status,
            "remedy": self.remedy,
        })
    }
}
