//! The counter and the system's clock at one moment.

use crate::Source;
use crate::settings::READINGS;

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub cycles: u64,
    pub system: i64,
    /// Cycles in which both were read: the moment is known as well as half of this.
    pub gap: u64,
}

impl Pair {
    /// Reads both some times and keeps the closest; `None` if the counter went back.
    pub fn read(source: &mut impl Source) -> Option<Pair> {
        let mut best: Option<Pair> = None;
        for _ in 0..READINGS {
            let before = source.cycles();
            let system = source.system();
            let gap = source.cycles().checked_sub(before)?;
            if best.is_none_or(|best| gap < best.gap) {
                best = Some(Pair { cycles: before + gap / 2, system, gap });
            }
        }
        best
    }
}
