//! Internet protocol, version 6.

mod check_ip6_header;
mod dec_ip6_hlim;
mod get_ip6_address;
mod icmp6_error;
mod icmp6_ping_responder;
mod ip6_fragmenter;
mod ip6_nd_advertiser;
mod ip6_nd_solicitor;
mod ip6_print;
mod ip6_router_advertiser;
pub(crate) mod lookup_ip6_route;
mod mark_ip6_header;
mod neighbor;
mod set_ip6_address;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &check_ip6_header::ENTRY,
    &dec_ip6_hlim::ENTRY,
    &get_ip6_address::ENTRY,
    &icmp6_error::ENTRY,
    &icmp6_ping_responder::ENTRY,
    &ip6_fragmenter::ENTRY,
    &ip6_nd_advertiser::ENTRY,
    &ip6_nd_solicitor::ENTRY,
    &ip6_print::ENTRY,
    &ip6_router_advertiser::ENTRY,
    &lookup_ip6_route::ENTRY,
    &mark_ip6_header::ENTRY,
    &set_ip6_address::ENTRY,
];
