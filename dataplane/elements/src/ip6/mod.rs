//! Internet protocol, version 6.

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[];
