//! Captures and summaries as files.
#![forbid(unsafe_code)]

pub mod capture_in;
pub mod capture_out;
pub mod encap;
mod from_dump;
mod from_ip_summary_dump;
mod from_tcpdump;
mod replay_unqueue;
mod summary;
mod tcpdump;
mod text_dump;
mod to_dump;
mod to_ip_summary_dump;
mod window;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &from_dump::ENTRY,
    &from_ip_summary_dump::ENTRY,
    &from_tcpdump::ENTRY,
    &replay_unqueue::ENTRY,
    &to_dump::ENTRY,
    &to_ip_summary_dump::ENTRY,
];
