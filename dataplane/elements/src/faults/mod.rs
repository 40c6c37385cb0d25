//! Faults to inject.

mod corrupt;
mod crash;
mod delay;
mod dice;
mod duplicate;
mod loss;
mod reorder;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &corrupt::ENTRY,
    &crash::ENTRY,
    &delay::ENTRY,
    &duplicate::ENTRY,
    &loss::ENTRY,
    &reorder::ENTRY,
];
