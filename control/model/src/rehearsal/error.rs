//! Why a configuration cannot be run from memory.

use thruway_engine::BuildError;
use thruway_lang::{Diagnostics, Graph};

/// Why a configuration cannot be run from memory.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// It is wrong once its ports are replaced.
    #[error("the configuration is wrong")]
    Ports(Box<Diagnostics>),
    /// It cannot be built.
    #[error("the configuration is wrong")]
    Build(Box<Graph>, Vec<BuildError>),
    /// Nobody said what it receives.
    #[error(
        "'{element}' receives packets from outside: say which with --traffic FILE, a capture or a \
         description (docs/model.md)"
    )]
    NoTraffic {
        /// The element's name.
        element: String,
    },
    /// Nothing ran.
    #[error("no packet moved: {why}")]
    Still {
        /// What to look at.
        why: String,
    },
    /// A function does not say what it takes.
    #[error("the processor time of '{function}' cannot be read: {why}")]
    Function {
        /// The element's name.
        function: String,
        /// What it said.
        why: String,
    },
}

impl RehearsalError {
    /// All that is wrong, in one line.
    pub fn details(&self) -> String {
        match self {
            RehearsalError::Build(_, errors) => {
                errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>().join("; ")
            }
            RehearsalError::Ports(found) => found.render(false),
            other => other.to_string(),
        }
    }
}
