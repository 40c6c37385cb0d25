//! Sources of packets, and sinks.
#![forbid(unsafe_code)]

mod discard;
mod fast_udp_source;
mod flows;
mod idle;
mod infinite_source;
mod null;
mod random_source;
mod rated_source;
mod template;
mod timed_sink;
mod timed_source;
mod work_package;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &discard::ENTRY,
    &flows::TCP,
    &flows::ENTRY,
    &fast_udp_source::ENTRY,
    &idle::ENTRY,
    &infinite_source::ENTRY,
    &null::ENTRY,
    &null::PULL,
    &null::PUSH,
    &random_source::ENTRY,
    &rated_source::ENTRY,
    &timed_sink::ENTRY,
    &timed_source::ENTRY,
    &work_package::ENTRY,
];
