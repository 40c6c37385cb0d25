//! Functions of a chain are verified before a data plane runs them.

use std::io;

use crate::Run;
use crate::kept::Kept;

/// Reason of a condition: a function that a chain uses is not as it is declared.
const FUNCTION_NOT_VERIFIED: &str = "FunctionNotVerified";

/// Why nothing was started.
#[derive(Debug)]
pub(super) struct NotStarted {
    /// One word in `CamelCase`.
    pub(super) reason: &'static str,
    /// One sentence.
    pub(super) message: String,
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> NotStarted {
        NotStarted { reason: "StartFailed", message: error.to_string() }
    }
}

/// Has a verified copy of each function.
///
/// # Errors
/// There is none, and none can be made of the file that is declared.
pub(super) fn keep(kept: &Kept, run: &Run) -> Result<(), NotStarted> {
    for (name, function) in &run.functions {
        if let Err(fault) = kept.keep(function) {
            let message = format!(
                "no verified copy of function {name}: {}; put the declared file back, or declare \
                 the function again",
                fault.message
            );
            return Err(NotStarted { reason: FUNCTION_NOT_VERIFIED, message });
        }
    }
    Ok(())
}
