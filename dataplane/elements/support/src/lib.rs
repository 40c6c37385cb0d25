//! What elements of several topics use.
#![forbid(unsafe_code)]

pub mod call;
pub mod census;
pub mod dialect;
pub mod ewma;
pub mod links;
pub mod named_file;
pub mod pace;
pub mod random;
pub mod rate;
pub mod reaching;
pub mod telling;
pub mod text;
