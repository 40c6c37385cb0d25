//! What is looked for in streams: many patterns at once, rules, events.
//!
//! Pure: bytes in, findings out. How the bytes come is `dataplane/stream`'s matter.
#![forbid(unsafe_code)]

pub mod events;
pub mod patterns;
pub mod rules;
