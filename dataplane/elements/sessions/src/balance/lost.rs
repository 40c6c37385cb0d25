//! Why Balance drops a packet.

use thruway_element::reasons;

reasons! {
    /// Why a packet goes no further.
    pub(super) enum Lost {
        HeldFull = "held-full": "too many packets waited for their sessions to move",
        Unfinished = "unfinished": "its session was moving when the router stopped",
        Ended = "session-ended": "its session had ended when it could go on after a hot swap",
        NoReplica = "no-replica": "all replicas were drained when its session began",
    }
}
