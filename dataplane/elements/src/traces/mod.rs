//! Captures, summaries, devices.

mod capture_in;
mod encap;
mod from_dump;
mod window;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[&from_dump::ENTRY];
