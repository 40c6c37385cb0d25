//! Why a configuration does not run.

use thruway_element::ArgErrors;

/// When a configuration turned out not to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// While reading arguments.
    Arguments,
    /// While initialising: files, devices.
    Initialize,
    /// While packets flow: a thread died.
    Run,
    /// While closing: data that could not be written.
    Finish,
}

/// An error of one element, or of the whole run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BuildError {
    /// When.
    pub stage: Stage,
    /// Index of the element to blame, if one is.
    pub node: Option<usize>,
    /// Argument index, where one is to blame.
    pub arg: Option<usize>,
    /// The error and its remedy.
    pub message: String,
}

impl BuildError {
    /// An error of element `node`.
    #[must_use]
    pub fn at(stage: Stage, node: usize, message: String) -> BuildError {
        BuildError { stage, node: Some(node), arg: None, message }
    }

    /// An error that no element is to blame for.
    #[must_use]
    pub fn of_run(stage: Stage, message: String) -> BuildError {
        BuildError { stage, node: None, arg: None, message }
    }

    /// The same with the index of the argument that is to blame.
    #[must_use]
    pub fn arg(mut self, index: impl Into<Option<usize>>) -> BuildError {
        self.arg = index.into();
        self
    }

    /// Errors of the arguments of element `node`.
    pub(crate) fn of_arguments(node: usize, wrong: ArgErrors) -> impl Iterator<Item = BuildError> {
        wrong.0.into_iter().map(move |error| {
            BuildError::at(Stage::Arguments, node, error.message).arg(error.index)
        })
    }
}
