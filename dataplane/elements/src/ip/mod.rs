//! Internet protocol, version 4 and what concerns both.

mod dec_ip_ttl;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[&dec_ip_ttl::ENTRY];
