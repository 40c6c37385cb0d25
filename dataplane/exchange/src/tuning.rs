//! What can be set while packets flow.

/// Thresholds of a link. The unit of time is the caller's: rounds, cycles or nanoseconds, whatever
/// it passes as `now` (section 5 of the paper, "emulated timestamp").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// MASTER_PKT_THRESHOLD: a sleeping Worker is woken when more tokens than this wait
    /// (Algorithm 2 line 10).
    pub master_threshold: u32,
    /// TS_THRESHOLD: or when the oldest waits for longer than this (Algorithm 3).
    pub age_threshold: u64,
    /// Publish each token instead of each batch: to measure what batching saves.
    pub publish_each: bool,
    /// Read the peer's index for each token instead of keeping a private copy: to measure what
    /// the copy saves.
    pub shared_indices: bool,
}

impl Tuning {
    /// Wake at once, publish batches, keep private copies.
    pub const DEFAULT: Tuning = Tuning {
        master_threshold: 0,
        age_threshold: 0,
        publish_each: false,
        shared_indices: false,
    };
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning::DEFAULT
    }
}
