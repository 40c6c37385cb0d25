//! Functions that keep state for each session, and what finds the session for them.

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[];
