//! The resources of a thread that serves clients.

use std::sync::Arc;
use std::time::Instant;

use thruway_element::{Ready, Remote};

/// The resources of a thread that serves clients.
pub(super) struct Desk {
    /// The router's handlers.
    pub remote: Arc<dyn Remote>,
    /// Ends the thread's wait.
    pub ready: Ready,
    /// Now.
    pub now: Instant,
    /// Clients are let in: the router runs. One that is greeted may rely on ports being open.
    pub is_open: bool,
}

impl Desk {
    /// A desk without waiting calls.
    pub(super) fn last(remote: Arc<dyn Remote>) -> Desk {
        Desk { remote, ready: Arc::new(|| {}), now: Instant::now(), is_open: false }
    }
}
