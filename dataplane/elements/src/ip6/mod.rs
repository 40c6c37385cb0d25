//! Internet protocol, version 6.

mod lookup_ip6_route;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[&lookup_ip6_route::ENTRY];
