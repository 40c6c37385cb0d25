//! TCP in the middle.

pub mod seq;

pub use seq::Seq;
