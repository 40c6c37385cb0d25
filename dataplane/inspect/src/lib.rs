//! What is looked for in streams: many patterns at once, regular expressions, rules,
//! events.
//!
//! Pure: bytes in, findings out. How the bytes come is `dataplane/stream`'s matter.
#![forbid(unsafe_code)]

pub mod events;
pub mod expressions;
pub mod patterns;
pub mod rules;
