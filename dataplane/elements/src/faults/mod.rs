//! Faults to inject.

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[];
