//! The content of a connection, as the author of a function sees it: bytes in order, independent of
//! their packets.
//!
//! A function of a stream implements [`StreamFunction`]: it gets the new bytes of a session as a
//! [`StreamCursor`], reads and changes them there, in the packets themselves, and returns how to
//! continue. The same function runs inside the engine and in a process of its own.
//!
//! ```
//! use thruway_payload::{Needs, Next, StreamCursor, StreamFunction};
//!
//! /// Counts the lines of both directions.
//! struct Lines(u64);
//!
//! impl StreamFunction for Lines {
//!     type State = [u64; 2];
//!     const NEEDS: Needs = Needs::ORDER;
//!
//!     fn process(&mut self, counts: &mut [u64; 2], data: &mut StreamCursor<'_>) -> Next {
//!         let lines = data.by_ref().filter(|byte| *byte == b'\n').count() as u64;
//!         counts[data.direction()] += lines;
//!         self.0 += lines;
//!         Next::Continue
//!     }
//! }
//! ```
#![forbid(unsafe_code)]

mod content;
mod cursor;
mod function;
mod pieces;

pub use content::{Content, Layer, flag};
pub use cursor::{About, StreamCursor};
pub use function::{Needs, Next, StreamFunction};
pub use pieces::Pieces;

/// The example of the manual is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams.md")]
struct Manual;
