//! Internet protocol, version 6.

mod check_ip6_header;
mod dec_ip6_hlim;
mod icmp6_error;
mod ip6_nd_advertiser;
mod ip6_nd_solicitor;
pub(crate) mod lookup_ip6_route;
mod neighbor;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &check_ip6_header::ENTRY,
    &dec_ip6_hlim::ENTRY,
    &icmp6_error::ENTRY,
    &ip6_nd_advertiser::ENTRY,
    &ip6_nd_solicitor::ENTRY,
    &lookup_ip6_route::ENTRY,
];
