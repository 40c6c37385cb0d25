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
}

impl Tuning {
    /// Wake at once.
    pub const DEFAULT: Tuning = Tuning { master_threshold: 0, age_threshold: 0 };
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning::DEFAULT
    }
}
