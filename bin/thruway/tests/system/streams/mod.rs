//! Streams through chains that look at them and change them, between the kernel's own stacks.
//!
//! Each byte that arrives is compared with what a plain replacement in the whole stream gives. What
//! carries the bytes is proven over a mere cable first.
//!
//! `THRUWAY_LONG=1` adds transfers of gigabytes and all combinations of options; use a release
//! build.

mod alerts;
mod cable;
mod captures;
mod chains;
mod content;
mod ends;
mod http;
pub mod isolated;
mod long;
mod options;
mod overload;
mod path;
mod talks;
mod trials;
mod words;
