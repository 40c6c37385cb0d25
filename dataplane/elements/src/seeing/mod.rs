//! Sources, sinks, printing, counting, scripting.

mod counter;
mod discard;
mod infinite_source;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[&counter::ENTRY, &discard::ENTRY, &infinite_source::ENTRY];
