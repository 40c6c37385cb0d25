//! Devices: interfaces of the kernel, of DPDK, sockets.
#![forbid(unsafe_code)]

mod changeover;
mod device_in;
mod device_out;
mod dpdk;
mod dpdk_info;
mod drop_stage;
mod from_device;
mod from_dpdk_device;
mod from_host;
mod handoff;
mod hosts;
mod in_order;
mod kernel_routes;
mod kernel_tap;
mod losses;
mod mode;
mod notes;
mod port_spec;
mod raw_socket;
mod shape;
mod shared_port;
mod sharing;
mod short_cuts;
mod socket;
mod tap_link;
mod to_device;
mod to_dpdk_device;
mod to_host;
mod transport;
mod vhost_user;
mod watched_link;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &dpdk_info::ENTRY,
    &from_device::ENTRY,
    &from_dpdk_device::ENTRY,
    &from_host::ENTRY,
    &kernel_routes::ENTRY,
    &kernel_tap::ENTRY,
    &raw_socket::ENTRY,
    &socket::ENTRY,
    &to_device::ENTRY,
    &to_dpdk_device::ENTRY,
    &to_host::ENTRY,
    &vhost_user::ENTRY,
];
