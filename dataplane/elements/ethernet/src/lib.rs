//! Raw bytes and Ethernet.
#![forbid(unsafe_code)]

mod align;
mod alignment_info;
mod classifier;
mod clipboard;
mod drop_broadcasts;
mod ensure_ether;
mod ether_encap;
mod ether_mirror;
mod ether_rewrite;
mod ether_switch;
mod ether_vlan_encap;
mod host_ether_filter;
mod mark_mac_header;
mod move_data;
mod pad;
mod resize;
mod set_vlan_anno;
mod store_data;
mod store_ether_address;
mod strip;
mod strip_ether_vlan_header;
mod strip_to_network_header;
mod strip_transport_header;
mod truncate;
mod unstrip;
mod vlan_decap;
mod vlan_encap;
mod vlan_tag;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &align::ENTRY,
    &alignment_info::ENTRY,
    &classifier::ENTRY,
    &clipboard::ENTRY,
    &drop_broadcasts::ENTRY,
    &ensure_ether::ENTRY,
    &ether_encap::ENTRY,
    &ether_mirror::ENTRY,
    &ether_rewrite::ENTRY,
    &ether_switch::ENTRY,
    &ether_vlan_encap::ENTRY,
    &host_ether_filter::ENTRY,
    &mark_mac_header::ENTRY,
    &move_data::ENTRY,
    &pad::ENTRY,
    &resize::ENTRY,
    &set_vlan_anno::ENTRY,
    &store_data::ENTRY,
    &store_ether_address::ENTRY,
    &strip::ENTRY,
    &strip_ether_vlan_header::ENTRY,
    &strip_to_network_header::ENTRY,
    &strip_transport_header::ENTRY,
    &truncate::ENTRY,
    &unstrip::ENTRY,
    &vlan_decap::ENTRY,
    &vlan_encap::ENTRY,
];
