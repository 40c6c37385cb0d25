//! Functions that keep state for each session, and what finds the session for them.
#![forbid(unsafe_code)]

#[cfg(test)]
pub(crate) mod alone;
mod balance;
mod class_output;
mod connection_limiter;
mod flow_classifier;
mod flow_dispatcher;
mod flow_hyper_scan;
mod flow_ip_nat;
mod flow_ip_nat_reverse;
mod flow_manager;
mod flow_print;
mod ip_len;
mod load_balancer;
mod nat;
#[cfg(test)]
pub(crate) mod plain;
mod pool;
mod replicate;
pub(crate) mod rewrite;
pub mod rewriters;
mod session_limiter;
mod session_stats;
mod stateful_firewall;
mod test_flow_space;
mod witness;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &balance::ENTRY,
    &connection_limiter::ENTRY,
    &flow_classifier::ENTRY,
    &flow_dispatcher::ENTRY,
    &flow_hyper_scan::ENTRY,
    &flow_ip_nat::ENTRY,
    &flow_ip_nat_reverse::ENTRY,
    &flow_manager::ENTRY,
    &flow_print::ENTRY,
    &load_balancer::ENTRY,
    &nat::ENTRY,
    &replicate::ENTRY,
    &session_limiter::ENTRY,
    &session_stats::ENTRY,
    &stateful_firewall::ENTRY,
    &test_flow_space::ENTRY,
    &witness::ENTRY,
];
