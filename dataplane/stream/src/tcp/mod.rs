//! TCP in the middle.

pub mod edits;
pub mod options;
pub mod overlap;
pub mod reorder;
pub mod seq;

pub use seq::Seq;
