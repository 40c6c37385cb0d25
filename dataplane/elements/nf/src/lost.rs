//! Why packets do not come back from a function.

use thruway_element::reasons;

reasons! {
    /// Why a packet does not come back.
    pub(super) enum Lost {
        Full = "ring-full": "all slots were in use",
        NoEntry = "no-entry": "all of SESSIONS were in use when its session began",
        TooLong = "too-long": "longer than SLOT_SIZE",
        Empty = "empty": "it has no bytes",
        NoFrame = "no-frame": "its group had no free frame",
        Dropped = "function-dropped": "the function dropped it",
        AuxFull = "aux-full": "the function could not add it: AUX_SLOTS were in use, as it says",
        Damaged = "damaged": "what came back has not even what CARRY adds",
        Stray = "stray": "the function made it, which one of streams cannot",
        Failed = "function-failed": "the function had it when it failed, or did not run",
        Unfinished = "unfinished": "the function had it when the router stopped",
    }
}
