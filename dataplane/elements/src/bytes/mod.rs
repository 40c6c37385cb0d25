//! Raw bytes and Ethernet.

mod classifier;
mod drop_broadcasts;
mod ether_encap;
mod ether_mirror;
mod ether_rewrite;
mod host_ether_filter;
mod mark_mac_header;
mod strip;
mod unstrip;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &classifier::ENTRY,
    &drop_broadcasts::ENTRY,
    &ether_encap::ENTRY,
    &ether_mirror::ENTRY,
    &ether_rewrite::ENTRY,
    &host_ether_filter::ENTRY,
    &mark_mac_header::ENTRY,
    &strip::ENTRY,
    &unstrip::ENTRY,
];
