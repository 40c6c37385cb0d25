//! Why packets go no further.

use thruway_element::reasons;

reasons! {
    /// Why a packet goes no further.
    pub(super) enum Idle {
        Standby = "standby": "this host is the backup",
        Fenced = "fenced": "the backup has taken over from this host",
        Held = "held": "it is not known yet whether the backup has taken over",
        Uncommitted = "uncommitted": "the backup did not acknowledge its session within COMMIT_TIME",
        CommitFull = "commit-full": "COMMIT_PACKETS wait for the backup already",
    }
}
