//! Sources, sinks, printing, counting, scripting.

mod average_counter;
mod call;
mod control_socket;
mod counter;
mod discard;
pub(crate) mod ewma;
mod fast_udp_flows;
mod idle;
mod infinite_source;
mod ip_line;
mod ip_print;
mod null;
mod print;
mod rated_source;
mod script;
mod static_thread_sched;
mod template;
pub(crate) mod text;
mod timed_source;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &average_counter::ENTRY,
    &control_socket::ENTRY,
    &counter::ENTRY,
    &discard::ENTRY,
    &fast_udp_flows::ENTRY,
    &idle::ENTRY,
    &infinite_source::ENTRY,
    &ip_print::ENTRY,
    &null::ENTRY,
    &print::ENTRY,
    &null::PULL,
    &null::PUSH,
    &rated_source::ENTRY,
    &script::ENTRY,
    &static_thread_sched::ENTRY,
    &timed_source::ENTRY,
];
