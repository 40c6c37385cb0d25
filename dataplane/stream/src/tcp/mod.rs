//! TCP in the middle.

pub mod edits;
pub mod options;
pub mod seq;

pub use seq::Seq;
