//! Tests of the language as a whole, over a small catalog.

pub(crate) mod catalog;
mod checks;
mod errors;
mod fmt;
mod hostile;
mod language;
mod links;
