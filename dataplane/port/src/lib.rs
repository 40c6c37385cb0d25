//! Receive and transmit: captures, AF_PACKET, TAP.
//!
//! Backends hand out frames as `&[u8]` with what is known of them, and take `&[u8]` to send.
//! Invariant: nothing here knows of elements, batches or the packet pool; copying into pool frames
//! is the caller's.

pub mod af_packet;
pub mod capture;
mod error;
pub mod interface;
mod system;
pub mod tap;

pub use error::{CaptureError, PortError};
