//! The counter and the system's clocks at one moment.

use crate::Source;
use crate::settings::READINGS;
use crate::steady::ahead;

/// All clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub cycles: u64,
    /// Monotonic time, which is never set: rates are measured against it.
    pub monotonic: i64,
    /// The system's time, which the clock returns.
    pub system: i64,
    /// Cycles in which counter and monotonic time were read: the moment is known as well as half of
    /// this.
    pub gap: u64,
}

impl Pair {
    /// Reads them some times and keeps the closest; `None` if the counter went back.
    pub fn read(source: &mut impl Source) -> Option<Pair> {
        let mut best: Option<Pair> = None;
        for _ in 0..READINGS {
            let before = source.cycles();
            let monotonic = source.monotonic();
            let gap = source.cycles().checked_sub(before)?;
            if best.is_none_or(|best| gap < best.gap) {
                best = Some(Pair { cycles: before + gap / 2, monotonic, system: 0, gap });
            }
        }
        let ahead = ahead(source);
        best.map(|pair| Pair { system: pair.monotonic.saturating_add(ahead), ..pair })
    }
}
