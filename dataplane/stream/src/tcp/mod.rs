//! TCP in the middle.

pub mod edits;
pub mod seq;

pub use seq::Seq;
