//! Functions that keep state for each session, and what finds the session for them.

#[cfg(test)]
mod alone;
mod flow_dispatcher;
#[allow(dead_code)] // on the list once there is a classifier for its example
mod load_balancer;
#[cfg(test)]
mod plain;
#[allow(dead_code)] // likewise
mod rewrite;
#[allow(dead_code)] // likewise
mod session_stats;
#[allow(dead_code)] // likewise
mod stateful_firewall;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[&flow_dispatcher::ENTRY];
