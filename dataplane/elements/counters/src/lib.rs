//! Counters, samples, printing, numbers and timestamps of packets.
#![forbid(unsafe_code)]

mod adjust_timestamp;
mod arp_print;
mod average_counter;
mod check_number_packet;
mod counter;
mod ip_line;
mod ip_print;
mod lines;
mod number_packet;
mod print;
mod record_timestamp;
mod set_timestamp;
mod set_timestamp_delta;
mod sflow;
mod sums;
mod time_filter;
mod time_range;
mod timestamp_accum;
mod timestamp_diff;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &adjust_timestamp::ENTRY,
    &arp_print::ENTRY,
    &average_counter::ENTRY,
    &check_number_packet::ENTRY,
    &counter::ENTRY,
    &ip_print::ENTRY,
    &number_packet::ENTRY,
    &print::ENTRY,
    &record_timestamp::ENTRY,
    &set_timestamp::ENTRY,
    &set_timestamp_delta::ENTRY,
    &sflow::ENTRY,
    &time_filter::ENTRY,
    &time_range::ENTRY,
    &timestamp_accum::ENTRY,
    &timestamp_diff::ENTRY,
];
