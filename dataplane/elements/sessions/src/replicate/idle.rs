//! Why packets go no further.

use thruway_element::reasons;

reasons! {
    /// Why a packet goes no further.
    pub(super) enum Idle {
        Standby = "standby": "this host is the backup",
        Fenced = "fenced": "the other host has taken over while it waited",
        Held = "held": "it is not known yet whether the other host has taken over",
        Unleased = "unleased": "this host reaches neither its backup nor the witness: another one may serve",
        PassedOn = consumed "passed-on": "this host has switched over: the packet went to the other one",
        PassFull = "pass-full": "this host has switched over, and too many packets are on their way to the other one",
        Uncommitted = "uncommitted": "the backup did not acknowledge its session within COMMIT_TIME",
        CommitFull = "commit-full": "COMMIT_PACKETS wait for the backup already",
    }
}
