//! Functions of the payload of sessions, and the contexts that they stand in.
#![forbid(unsafe_code)]

mod holding;
mod http_in;
mod http_out;
mod http_rewriter;
mod intrusion_prevention;
mod ip;
mod journal;
mod parties;
mod payload_checksum;
mod payload_stats;
mod per_stream;
mod tcp;
mod udp;
mod word_matcher;

use thruway_element::Entry;

pub use per_stream::{PerStream, STAGE_TIMER, stream_ended, stream_wants};

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &http_in::ENTRY,
    &http_out::ENTRY,
    &http_rewriter::ENTRY,
    &intrusion_prevention::ENTRY,
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
