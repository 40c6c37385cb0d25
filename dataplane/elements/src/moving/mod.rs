//! Queues, schedulers, switches, tees, paint.

mod paint;
mod queue;
mod unqueue;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[&paint::ENTRY, &queue::ENTRY, &unqueue::ENTRY];
