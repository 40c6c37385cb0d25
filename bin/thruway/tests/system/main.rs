//! System tests: the program as a user runs it, with real hosts in network namespaces, hostile
//! captures, full disks, signals and control connections.
//!
//! Tests that need namespaces run as root; for others they are skipped, and said so, unless
//! `THRUWAY_REQUIRE_PRIVILEGES=1`. `THRUWAY_CAPTURES_DIR=DIR` runs the captures under DIR, too,
//! through the configuration that uses every parser.
#![forbid(unsafe_code)]

mod attacks;
mod branch;
mod broadband;
mod clients;
mod collectors;
mod control;
mod distress;
mod doctor;
#[cfg(feature = "dpdk")]
mod dpdk;
mod driver;
mod estimate;
mod evasion;
mod first_use;
mod footprint;
mod frames;
mod frr;
mod functions;
mod gateway;
mod handoff;
mod hops;
mod hostile;
mod idle;
mod instances;
mod interfaces;
mod kernel_routes;
mod kinds;
mod leavings;
mod load;
mod losses;
mod manager;
mod network;
mod offload;
mod pages;
mod plan;
mod privileges;
mod process;
mod refusals;
mod refused_ports;
mod repeat;
mod replication;
mod rewriters;
mod router;
mod sessions;
mod short_cuts;
mod siege;
mod sockets;
mod stops;
mod streams;
mod surroundings;
mod tags;
mod threads;
mod tools;
mod top;
mod trace;
mod traffic;
mod trials;
mod web;
mod xdp;
