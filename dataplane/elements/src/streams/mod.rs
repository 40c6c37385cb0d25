//! Functions of the payload of sessions, and the contexts that they stand in.

mod http_in;
mod http_out;
mod intrusion_prevention;
mod ip;
mod journal;
mod parties;
mod payload_checksum;
mod payload_stats;
mod tcp;
mod udp;
mod word_matcher;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &intrusion_prevention::ENTRY,
    &http_in::ENTRY,
    &http_out::ENTRY,
    &ip::IN,
    &ip::OUT,
    &payload_checksum::ENTRY,
    &payload_stats::ENTRY,
    &tcp::IN,
    &tcp::OUT,
    &udp::IN,
    &udp::OUT,
    &word_matcher::ENTRY,
];
