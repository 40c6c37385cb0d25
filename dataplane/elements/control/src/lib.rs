//! Elements that control a router from inside and outside: scripts, sockets, settings.
#![forbid(unsafe_code)]

mod acceptor;
mod chatter_socket;
mod client_limits;
mod control_socket;
mod desk;
mod error;
mod gate;
mod management;
mod message;
mod poke_handlers;
mod random_seed;
mod schedule_info;
mod script;
mod static_thread_sched;
mod tsc_clock;

pub use control_socket::Instance;
use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &chatter_socket::ENTRY,
    &control_socket::ENTRY,
    &error::ENTRY,
    &message::ENTRY,
    &poke_handlers::ENTRY,
    &random_seed::ENTRY,
    &schedule_info::ENTRY,
    &script::ENTRY,
    &static_thread_sched::ENTRY,
    &tsc_clock::ENTRY,
];
