//! What was found: something that is well, that could be better, or that is missing.

use serde_json::{Value, json};

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Something does not work without it.
    Missing,
    /// It could be faster.
    Better,
    /// Nobody tells.
    Unknown,
    /// There is nothing to do.
    Good,
}

impl State {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            State::Missing => "missing",
            State::Better => "better",
            State::Unknown => "unknown",
            State::Good => "good",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    pub state: State,
    /// How it is.
    pub told: String,
    /// What to do.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(state: State, what: &str, told: impl Into<String>) -> Finding {
        Finding { what: what.to_owned(), state, told: told.into(), remedy: None }
    }

    /// There is nothing to do.
    pub fn good(what: &str, told: impl Into<String>) -> Finding {
        Finding::new(State::Good, what, told)
    }

    /// Nobody tells.
    pub fn unknown(what: &str, told: impl Into<String>) -> Finding {
        Finding::new(State::Unknown, what, told)
    }

    /// It could be faster if one did this.
    pub fn better(what: &str, told: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..Finding::new(State::Better, what, told) }
    }

    /// Something works only if one does this.
    pub fn missing(what: &str, told: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..Finding::new(State::Missing, what, told) }
    }

    /// As JSON.
    pub fn value(&self) -> Value {
        json!({
            "what": self.what,
            "state": self.state.name(),
            "told": self.told,
            "remedy": self.remedy,
        })
    }
}
