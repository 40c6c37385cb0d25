//! What was measured.

use std::time::Duration;

/// What one kill came to.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    /// Until the first packet that the next process answered.
    pub back: Duration,
    /// Of that, how long threads that could run waited for a processor.
    pub waited: Duration,
    /// Packets that were lost.
    pub lost: u64,
}

/// All that was measured.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub kills: Vec<Kill>,
    /// Packets that the source made, and those that came back.
    pub made: u64,
    pub back: u64,
    /// What went wrong otherwise; see [`super::elements::Ledger`].
    pub astray: u64,
    pub forgotten: u64,
    /// Packets that the element dropped, by reason.
    pub drops: String,
    /// Sessions before the first kill and after the last.
    pub sessions: [u64; 2],
    /// Slots of the function's ring.
    pub slots: u64,
    /// Processor time of a start: of the function's processes, for each.
    pub start_cpu: Duration,
}
