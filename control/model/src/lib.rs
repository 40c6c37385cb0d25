//! How fast will it be? What a configuration costs, from the elementary operations that it is made
//! of and from what these cost on a host; and where its functions should run.
//!
//! The method is that of M. Baldi and A. Sapio, "Network Function Modeling and Performance
//! Estimation", 2018 (*the paper* in this crate).
//!
//! *Absent here:* the packet path. Nothing of this crate runs while packets do.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod estimate;
mod file_error;
pub mod hardware;
pub mod observed;
pub mod paper;
pub mod plan;
pub mod rehearsal;
pub mod traffic;

pub use file_error::FileError;
pub use hardware::{Constant, Hardware, HardwareError};
