//! Internet protocol, version 4 and what concerns both.

mod dec_ip_ttl;
pub(crate) mod dispatch;
mod ip_classifier;
mod ip_filter;
mod ip_lookup;
pub(crate) mod route_table;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] =
    &[&dec_ip_ttl::ENTRY, &ip_lookup::ENTRY, &ip_classifier::ENTRY, &ip_filter::ENTRY];
