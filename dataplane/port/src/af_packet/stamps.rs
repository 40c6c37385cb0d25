//! One time for each frame, whoever receives it.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, socket};

use crate::error::PortError;
use crate::system;

/// While it lives, the kernel stamps each frame once, when it comes. Without, each socket that
/// receives a frame reads the clock. The kernel begins a moment later.
pub struct Stamps(#[expect(dead_code, reason = "it asks for stamps while it is open")] OwnedFd);

impl Stamps {
    /// For the sake of an interface of this name. (socket(7), `SO_TIMESTAMPNS`.)
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn begin(name: &str) -> Result<Stamps, PortError> {
        let refused = |step| move |e: std::io::Error| PortError::system(name, step, e);
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)
            .map_err(|e| refused("socket(AF_INET)")(e.into()))?;
        system::set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
            .map_err(refused("setsockopt(SO_TIMESTAMPNS)"))?;
        Ok(Stamps(socket))
    }
}
