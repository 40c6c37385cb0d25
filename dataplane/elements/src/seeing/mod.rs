//! Sources, sinks, printing, counting, scripting.

mod adjust_timestamp;
mod arp_print;
mod average_counter;
mod call;
mod chatter_socket;
mod check_number_packet;
mod control_socket;
mod counter;
mod desk;
mod discard;
mod door;
mod error;
pub(crate) mod ewma;
mod fast_udp_source;
mod flows;
mod gate;
mod idle;
mod infinite_source;
mod ip_line;
mod ip_print;
mod lines;
mod management;
mod message;
mod null;
mod number_packet;
mod places;
mod poke_handlers;
mod print;
mod random_seed;
mod random_source;
mod rated_source;
mod record_timestamp;
mod schedule_info;
mod script;
mod set_timestamp;
mod set_timestamp_delta;
mod static_thread_sched;
mod sums;
mod template;
pub(crate) mod text;
mod time_filter;
mod time_range;
mod timed_sink;
mod timed_source;
mod timestamp_accum;
mod timestamp_diff;
mod tsc_clock;
mod work_package;

pub use control_socket::Instance;
use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &adjust_timestamp::ENTRY,
    &arp_print::ENTRY,
    &average_counter::ENTRY,
    &chatter_socket::ENTRY,
    &check_number_packet::ENTRY,
    &control_socket::ENTRY,
    &counter::ENTRY,
    &discard::ENTRY,
    &error::ENTRY,
    &flows::TCP,
    &flows::ENTRY,
    &fast_udp_source::ENTRY,
    &idle::ENTRY,
    &infinite_source::ENTRY,
    &ip_print::ENTRY,
    &message::ENTRY,
    &null::ENTRY,
    &number_packet::ENTRY,
    &poke_handlers::ENTRY,
    &print::ENTRY,
    &null::PULL,
    &null::PUSH,
    &random_seed::ENTRY,
    &random_source::ENTRY,
    &rated_source::ENTRY,
    &record_timestamp::ENTRY,
    &schedule_info::ENTRY,
    &script::ENTRY,
    &set_timestamp::ENTRY,
    &set_timestamp_delta::ENTRY,
    &static_thread_sched::ENTRY,
    &timed_sink::ENTRY,
    &timed_source::ENTRY,
    &time_filter::ENTRY,
    &time_range::ENTRY,
    &timestamp_accum::ENTRY,
    &timestamp_diff::ENTRY,
    &tsc_clock::ENTRY,
    &work_package::ENTRY,
];
