//! Isolated functions: processes of their own, reached through the exchange.

mod backend;
mod group;
mod latency;
mod link;
#[allow(clippy::module_inception, reason = "the element's file bears the element's name")]
mod nf;
mod process;
mod report;
mod settings;
mod trust_group;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[&nf::ENTRY, &trust_group::ENTRY];

#[cfg(test)]
mod tests;
