//! Receive and transmit: captures, AF_PACKET, TAP.

pub mod capture;
mod error;

pub use error::{CaptureError, PortError};
