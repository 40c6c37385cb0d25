//! Receive and transmit: captures, AF_PACKET, AF_XDP, DPDK, TAP, the host's own sockets.
//!
//! Captures, AF_PACKET, TAP and sockets hand out frames as `&[u8]` with what is known of them, and
//! take `&[u8]` to send; copying into pool frames is the caller's. AF_XDP moves packets themselves:
//! the kernel writes to and reads from the pool's frames, which are lent to it; so does DPDK with
//! its drivers (feature `dpdk`).
//! Invariant: nothing here knows of elements.

pub mod af_packet;
pub mod af_xdp;
mod bpf;
pub mod capture;
mod classes;
pub mod dpdk;
pub mod drop_stage;
mod error;
pub mod generator;
pub mod host_routes;
pub mod interface;
mod interface_driver;
mod interface_exists;
mod interface_request;
mod notes;
pub mod run_directory;
pub mod short_cut;
pub mod socket;
mod system;
pub mod tap;

pub use error::{CaptureError, PortError};
