//! The network functions: one file per element, a folder per topic.
//!
//! An element's file holds its [`thruway_element::Entry`] (spec and builder) and its code; beside
//! it stands its golden test, `name.clicktest`. Adding one means: write the file, the test, and a
//! line in the topic's `ELEMENTS` list.
#![forbid(unsafe_code)]

mod bytes;
mod census;
#[cfg(test)]
mod changes;
mod dialect;
mod faults;
mod ip;
mod ip6;
mod links;
mod moving;
mod named_file;
mod nf;
mod pace;
mod random;
mod rate;
mod reaching;
mod rewriters;
#[cfg(test)]
mod rig;
mod seeing;
mod sessions;
mod streams;
mod telling;
mod traces;

pub use nf::{HOST, Host};
pub use seeing::Instance;
use thruway_element::Registry;

/// Every element class there is.
pub static CATALOG: Registry = Registry(&[
    seeing::ELEMENTS,
    traces::ELEMENTS,
    moving::ELEMENTS,
    bytes::ELEMENTS,
    ip::ELEMENTS,
    ip6::ELEMENTS,
    nf::ELEMENTS,
    sessions::ELEMENTS,
    streams::ELEMENTS,
    rewriters::ELEMENTS,
    faults::ELEMENTS,
]);
