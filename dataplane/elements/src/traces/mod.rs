//! Captures, summaries, devices.

mod capture_in;
mod capture_out;
mod device_in;
mod device_out;
mod dpdk;
mod dpdk_info;
mod encap;
mod from_device;
mod from_dpdk_device;
mod from_dump;
mod from_host;
mod from_ip_summary_dump;
mod from_tcpdump;
mod handover;
mod hosts;
mod in_order;
mod kernel_tap;
mod port_spec;
mod raw_socket;
mod replay_unqueue;
mod shape;
mod sharing;
mod short_cuts;
mod socket;
mod summary;
mod tap_link;
mod tcpdump;
mod team;
mod text_dump;
mod to_device;
mod to_dpdk_device;
mod to_dump;
mod to_host;
mod to_ip_summary_dump;
mod told;
mod transport;
mod watched_link;
mod way;
mod window;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &dpdk_info::ENTRY,
    &from_device::ENTRY,
    &from_dpdk_device::ENTRY,
    &from_dump::ENTRY,
    &from_host::ENTRY,
    &from_ip_summary_dump::ENTRY,
    &from_tcpdump::ENTRY,
    &kernel_tap::ENTRY,
    &raw_socket::ENTRY,
    &replay_unqueue::ENTRY,
    &socket::ENTRY,
    &to_device::ENTRY,
    &to_dpdk_device::ENTRY,
    &to_dump::ENTRY,
    &to_host::ENTRY,
    &to_ip_summary_dump::ENTRY,
];
