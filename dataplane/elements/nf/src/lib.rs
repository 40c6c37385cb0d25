//! Isolated functions: processes of their own, reached through the exchange.
#![forbid(unsafe_code)]

mod backend;
mod came;
mod carried;
mod collect;
mod costs;
mod dues;
mod framed;
mod group;
mod hang;
mod hot_swap;
mod idling;
mod isolate;
mod isolated_element;
mod isolated_ports;
mod latency;
mod link;
mod lost;
mod machine;
#[allow(clippy::module_inception, reason = "the element's file bears the element's name")]
mod moves;
mod nf;
mod opened;
mod outlet;
mod parked;
mod process;
mod publish;
mod reminders;
mod replica;
mod report;
mod sessions;
mod settings;
mod state;
mod streams;
mod tokens;
mod transfer;
mod trust_group;
mod waking;
mod workers;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &isolate::ENTRY,
    &isolated_element::ENTRY,
    &isolated_ports::ENTRY,
    &machine::ENTRY,
    &nf::ENTRY,
    &trust_group::ENTRY,
];

pub use isolated_ports::{HOST, Host};

#[cfg(test)]
mod tests;
