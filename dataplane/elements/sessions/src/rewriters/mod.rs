//! Click's translators of addresses: tables of mappings beside the flow manager, of its records.

mod build;
mod class;
mod context;
mod ftp_port_mapper;
mod handlers;
mod heap;
mod icmp_ping_rewriter;
mod icmp_rewriter;
mod input;
mod ip_addr_pair_rewriter;
mod ip_addr_rewriter;
mod ip_rewriter;
mod ip_rewriter_patterns;
mod mapper;
mod pattern;
mod reach;
mod rewriter;
mod ring;
mod round_robin_ip_mapper;
mod sequence;
mod source_ip_hash_mapper;
mod state;
mod store;
mod tcp_rewriter;
#[cfg(test)]
mod tests;
mod thread_ip_mapper;
mod udp_rewriter;

pub(crate) use icmp_rewriter::quoted;
use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &ftp_port_mapper::ENTRY,
    &icmp_ping_rewriter::ENTRY,
    &icmp_rewriter::ENTRY,
    &ip_addr_pair_rewriter::ENTRY,
    &ip_addr_rewriter::ENTRY,
    &ip_rewriter::ENTRY,
    &ip_rewriter_patterns::ENTRY,
    &round_robin_ip_mapper::ENTRY,
    &source_ip_hash_mapper::ENTRY,
    &tcp_rewriter::ENTRY,
    &thread_ip_mapper::ENTRY,
    &udp_rewriter::ENTRY,
];
