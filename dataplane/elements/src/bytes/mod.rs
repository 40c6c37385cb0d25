//! Raw bytes and Ethernet.

mod align;
mod classifier;
mod drop_broadcasts;
mod ensure_ether;
mod ether_encap;
mod ether_mirror;
mod ether_rewrite;
mod host_ether_filter;
mod mark_mac_header;
mod pad;
mod store_data;
mod strip;
mod strip_to_network_header;
mod truncate;
mod unstrip;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &align::ENTRY,
    &classifier::ENTRY,
    &drop_broadcasts::ENTRY,
    &ensure_ether::ENTRY,
    &ether_encap::ENTRY,
    &ether_mirror::ENTRY,
    &ether_rewrite::ENTRY,
    &host_ether_filter::ENTRY,
    &mark_mac_header::ENTRY,
    &pad::ENTRY,
    &store_data::ENTRY,
    &strip::ENTRY,
    &strip_to_network_header::ENTRY,
    &truncate::ENTRY,
    &unstrip::ENTRY,
];
