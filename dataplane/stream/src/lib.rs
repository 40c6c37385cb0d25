//! Streams in a middlebox: gives functions the payload of connections in order, and lets them
//! change it, while both ends communicate as if there were no middlebox.
#![forbid(unsafe_code)]

mod ages;
pub mod content;
pub mod http;
pub mod pieces;
pub mod segment;
mod splice;
pub mod stage;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod unseen;

pub use splice::splice;
