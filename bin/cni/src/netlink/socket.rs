//! The socket for interfaces, addresses and routes.

use thruway_netlink::{ACK, Message, REQUEST, Result, Socket};

/// See the module's description.
#[derive(Debug)]
pub struct Route(pub(super) Socket);

impl Route {
    /// In the network namespace of this thread, where it stays.
    ///
    /// # Errors
    /// The system has none.
    pub fn open() -> Result<Route> {
        // Protocol 0 is NETLINK_ROUTE.
        Socket::open(None).map(Route)
    }

    /// A request about one thing, which is confirmed.
    pub(super) fn request(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        Message::new(kind, REQUEST | ACK | flags, fixed)
    }
}
