//! TCP in the middle.

pub mod overlap;
pub mod reorder;
pub mod seq;
