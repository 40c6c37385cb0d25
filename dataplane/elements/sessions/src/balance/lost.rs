//! Why Balance drops a packet.

use thruway_element::reasons;

reasons! {
    /// Why a packet goes no further.
    pub(super) enum Lost {
        HeldFull = "held-full": "too many packets waited for their sessions to move",
        Unfinished = "unfinished": "its session was moving when the router stopped",
        NoReplica = "no-replica": "all replicas were drained when its session began",
    }
}
