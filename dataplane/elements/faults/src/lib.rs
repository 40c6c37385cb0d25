//! Faults to inject.
#![forbid(unsafe_code)]

mod corrupt;
mod crash;
mod delay;
mod dice;
mod loss;
mod reorder;
mod repeat;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] =
    &[&corrupt::ENTRY, &crash::ENTRY, &delay::ENTRY, &loss::ENTRY, &reorder::ENTRY, &repeat::ENTRY];
