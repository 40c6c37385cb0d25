//! Functions that keep state for each session, and what finds the session for them.

mod flow_classifier;
mod flow_dispatcher;
#[allow(dead_code)] // address translators are its users
mod rewrite;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[&flow_classifier::ENTRY, &flow_dispatcher::ENTRY];
