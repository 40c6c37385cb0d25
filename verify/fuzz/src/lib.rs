//! Fuzz targets of every parser: functions of bytes that must not panic, and that compare with
//! something simple where there is such a thing.
//!
//! The fuzzer is `libfuzzer`, a crate of its own, built and run by `scripts/fuzz`. Inputs that it
//! found or was given stand in `corpus`, inputs of faults that were mended in `regressions`; the
//! ordinary test `replay` runs all of them.
//!
//! *Absent here:* anything that reaches outside of the process. A target opens no file, socket or
//! device, whatever its input says.
#![forbid(unsafe_code)]

mod abi;
mod captures;
mod control;
mod descriptions;
mod elements;
mod exchange;
mod input;
mod language;
mod packets;
mod replication;
mod routes;
mod rules;
mod script;
mod tags;
mod vhost;

/// One fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in `corpus`.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]),
    /// Longest input that is tried, bytes.
    pub len_max: usize,
}

const fn target(name: &'static str, run: fn(&[u8]), len_max: usize) -> Target {
    Target { name, run, len_max }
}

/// All targets, by name.
pub const TARGETS: &[Target] = &[
    target("abi", abi::run, 256),
    target("arguments", elements::arguments, 512),
    target("captures", captures::run, 4096),
    target("control_socket", control::run, 2048),
    target("dhcp", packets::dhcp, 640),
    target("exchange", exchange::run, 1024),
    target("handlers", elements::handlers, 512),
    target("hardware", descriptions::hardware, 4096),
    target("headers", packets::headers, 512),
    target("hops", packets::hops, 512),
    target("http", packets::http, 2048),
    target("inspect", packets::inspect, 2048),
    target("language", language::run, 2048),
    target("models", descriptions::models, 4096),
    target("patterns", rules::patterns, 1024),
    target("plan", descriptions::plan, 4096),
    target("replication", replication::run, 2048),
    target("routes", routes::run, 1024),
    target("rules", rules::expressions, 1024),
    target("script", script::run, 1024),
    target("tags", tags::run, 256),
    target("tcp", packets::tcp, 2048),
    target("traffic", descriptions::traffic, 2048),
    target("unpack", packets::unpack, 2048),
    target("vhost_messages", vhost::messages, 2048),
    target("vhost_rings", vhost::rings, 1024),
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
