//! Streams in the middle of the network: what must be done so that functions see the payload of
//! connections in order and may change it, while both ends go on as if nobody stood between them.
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
