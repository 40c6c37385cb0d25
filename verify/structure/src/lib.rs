//! The structure check: what a compiler does not see and a reviewer should not have to.
//!
//! Each rule is a function from the tree of sources to a list of [`Problem`]s; `tests/structure.rs`
//! runs every rule on this repository. A problem says where, what, and what to do about it.
#![forbid(unsafe_code)]

pub mod capabilities;
pub mod catalog;
pub mod circles;
pub mod class_names;
pub mod compatibility;
pub mod doc_examples;
pub mod layers;
pub mod modules;
mod paths;
pub mod prose;
mod references;
pub mod rooms;
pub mod sizes;
pub mod steps;
pub mod texts;
mod tree;
pub mod words;

pub use tree::{Crate, Tree};

use std::fmt;

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// File (with line where there is one), crate or element.
    pub location: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl Problem {
    /// A problem.
    pub fn new(
        location: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        Problem { location: location.into(), what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.location, self.what, self.remedy)
    }
}
