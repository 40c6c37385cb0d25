//! Requests about interfaces, with errors that name the interface.

use crate::error::PortError;
use crate::system::{self, IfRequest};
use std::os::fd::OwnedFd;

/// A socket to ask about interfaces with.
pub(crate) fn control_socket(name: &str) -> Result<OwnedFd, PortError> {
    system::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
        .map_err(|e| PortError::system(name, "socket", e))
}

/// A request about `name` (empty: let the kernel choose).
pub(crate) fn request_about(name: &str) -> Result<IfRequest, PortError> {
    let what = "an interface name has at most 15 bytes";
    IfRequest::of(name).ok_or_else(|| PortError::unfit(name, what))
}
