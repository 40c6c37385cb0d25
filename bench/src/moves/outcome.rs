//! What was measured.

use std::time::Duration;

/// What one move of all sessions came to.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    /// From the call until none is left.
    pub took: Duration,
    /// The longest time from a packet's source to its sink.
    pub latency: Duration,
}

/// All that was measured.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub moves: Vec<Move>,
    /// How long packets of parts waited for their move, as `Balance` says: by limits, in
    /// nanoseconds, how many.
    pub pauses: Vec<(u64, u64)>,
    /// The longest of them.
    pub pause_max: Duration,
    /// The longest time from source to sink in a second without moves.
    pub latency_before: Duration,
    /// Sessions that moved, and those that were to.
    pub moved: [u64; 2],
    /// Packets that the source made, and those that came.
    pub made: u64,
    pub back: u64,
    /// Packets of sessions that lost their scratch, and overtaken packets.
    pub backwards: u64,
    /// Packets that elements dropped, by reason.
    pub drops: String,
}
