//! Calls of a function's handlers: why one failed, and what becomes of an answer.

use std::fmt;
use std::time::Duration;

/// Longest time that a function has to answer a call of a handler.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a handler's call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No process is attached.
    #[error("the function is not running")]
    NotRunning,
    /// It did not answer.
    #[error("the function did not answer within {CALL_TIMEOUT:?}")]
    NoAnswer,
    /// It has too many questions to answer already, or this one is too long.
    #[error("the function cannot take this question now, or it is too long")]
    Refused,
    /// Its answer is an error.
    #[error("{0}")]
    Answer(String),
}

/// What becomes of a call's answer.
pub(crate) struct Reply(pub Box<dyn FnOnce(Result<String, CallError>) + Send>);

impl Reply {
    /// Gives the answer on.
    pub fn give(self, answer: Result<String, CallError>) {
        (self.0)(answer);
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
