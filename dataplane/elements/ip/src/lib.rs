//! Internet protocol, version 4 and what concerns both.
#![forbid(unsafe_code)]

mod address_info;
mod aggregate_counter;
mod aggregate_ip;
mod aggregate_ip_flows;
mod arp_faker;
mod arp_querier;
mod arp_responder;
mod arp_table;
mod bng;
mod check_ip_header;
mod check_tcp_header;
mod clamp_mss;
mod dec_ip_ttl;
mod dhcp;
mod dhcp_client;
mod dhcp_server;
pub mod dispatch;
mod erase_ip_payload;
mod fix_ip_src;
mod flood_detector;
mod get_ip_address;
mod gre_decap;
mod gre_encap;
mod gtp_decap;
mod gtp_encap;
mod header_flaws;
mod icmp_error;
mod icmp_ip_encap;
mod icmp_ping_encap;
pub(crate) mod icmp_ping_responder;
mod icmp_ping_source;
pub mod ip6;
mod ip_classifier;
mod ip_encap;
pub mod ip_filter;
mod ip_fragmenter;
mod ip_input_combo;
mod ip_lookup;
mod ip_mirror;
mod ip_output_combo;
mod ip_rate_monitor;
mod ip_reassembler;
mod ipgw_options;
mod mark_ip_ce;
mod mark_ip_header;
mod mpls_push;
mod mpls_switch;
mod outer;
mod port_info;
pub(crate) mod resolution;
pub(crate) mod route_table;
mod routes;
pub mod rule_texts;
mod set_ip_address;
mod set_ip_checksum;
mod set_ip_dscp;
mod set_ip_ecn;
mod set_rand_ip_address;
mod set_tcp_checksum;
mod store_ip_address;
mod tunnel;
mod udp_ip_encap;
mod vxlan_decap;
mod vxlan_encap;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &address_info::ENTRY,
    &aggregate_counter::ENTRY,
    &aggregate_ip::ENTRY,
    &aggregate_ip_flows::ENTRY,
    &arp_faker::ENTRY,
    &arp_querier::ENTRY,
    &arp_responder::ENTRY,
    &arp_table::ENTRY,
    &bng::ENTRY,
    &check_ip_header::ENTRY,
    &check_tcp_header::ENTRY,
    &clamp_mss::ENTRY,
    &dec_ip_ttl::ENTRY,
    &dhcp_client::ENTRY,
    &dhcp_server::ENTRY,
    &ip_lookup::ENTRY,
    &erase_ip_payload::ENTRY,
    &fix_ip_src::ENTRY,
    &flood_detector::ENTRY,
    &get_ip_address::ENTRY,
    &gre_decap::ENTRY,
    &gre_encap::ENTRY,
    &gtp_decap::ENTRY,
    &gtp_encap::ENTRY,
    &icmp_error::ENTRY,
    &icmp_ip_encap::ENTRY,
    &icmp_ping_encap::ENTRY,
    &icmp_ping_responder::ENTRY,
    &icmp_ping_source::ENTRY,
    &ip_classifier::ENTRY,
    &ip_encap::ENTRY,
    &ip_filter::ENTRY,
    &ip_fragmenter::ENTRY,
    &ipgw_options::ENTRY,
    &ip_input_combo::ENTRY,
    &ip_mirror::ENTRY,
    &ip_output_combo::ENTRY,
    &ip_rate_monitor::ENTRY,
    &ip_reassembler::ENTRY,
    &mark_ip_ce::ENTRY,
    &mark_ip_header::ENTRY,
    &mpls_push::ENTRY,
    &mpls_switch::ENTRY,
    &port_info::ENTRY,
    &set_ip_address::ENTRY,
    &set_ip_checksum::ENTRY,
    &set_ip_dscp::ENTRY,
    &set_ip_ecn::ENTRY,
    &set_rand_ip_address::ENTRY,
    &set_tcp_checksum::ENTRY,
    &store_ip_address::ENTRY,
    &udp_ip_encap::ENTRY,
    &vxlan_decap::ENTRY,
    &vxlan_encap::ENTRY,
];
