//! What was measured.

use std::time::Duration;

/// What came of one kill.
#[derive(Debug, Clone)]
pub struct Taken {
    /// Until the backup said that it serves.
    pub detection: Duration,
    /// The longest time without an answer to the probe.
    pub gap: Duration,
    /// Connections that were there, and those that ended or are silent.
    pub connections: usize,
    pub lost: usize,
    /// Why the first of them was.
    pub why: Option<String>,
}
