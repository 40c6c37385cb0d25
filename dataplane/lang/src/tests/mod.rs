//! Tests of the language as a whole, over a small catalog.

mod catalog;
mod language;
