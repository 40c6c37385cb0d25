//! Functions that keep state for each session, and what finds the session for them.

#[cfg(test)]
mod alone;
mod flow_classifier;
mod flow_dispatcher;
mod load_balancer;
mod nat;
#[cfg(test)]
mod plain;
mod rewrite;
mod session_stats;
mod stateful_firewall;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &flow_classifier::ENTRY,
    &flow_dispatcher::ENTRY,
    &load_balancer::ENTRY,
    &nat::ENTRY,
    &session_stats::ENTRY,
    &stateful_firewall::ENTRY,
];
