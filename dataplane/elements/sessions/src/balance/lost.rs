//! Why Balance drops a packet.

use thruway_element::reasons;

reasons! {
    /// Why a packet goes no further.
    pub(super) enum Lost {
        NoReplica = "no-replica": "all replicas were drained when its session began",
    }
}
