//! Why there is no plan.

use crate::HardwareError;
use crate::file_error::FileError;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read, or is not such a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A value that cannot be.
    #[error("{location}: {field} is {value}: {remedy}")]
    Value {
        /// File and line.
        location: String,
        /// Dotted name of the field.
        field: String,
        /// What it is.
        value: String,
        /// What it should be.
        remedy: &'static str,
    },
    /// Something is not there.
    #[error("{location}: no {what}: {remedy}")]
    Missing {
        /// File and line, or the host.
        location: String,
        /// What.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A name that nothing has.
    #[error("{location}: no {what} '{name}': there are {known}")]
    Unknown {
        /// File and line, or the option.
        location: String,
        /// Of what kind.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A host's description is not used.
    #[error("host '{host}': {why}")]
    Hardware {
        /// Which host.
        host: String,
        /// Why.
        why: HardwareError,
    },
    /// There is no estimate of a chain's cost.
    #[error("chain '{chain}' on host '{host}': {why}")]
    Estimate {
        /// Which chain.
        chain: String,
        /// On which host.
        host: String,
        /// Why.
        why: String,
    },
}
