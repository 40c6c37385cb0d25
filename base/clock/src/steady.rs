//! The time without the counter: follows monotonic time, towards the system's clock.

use crate::Source;
use crate::settings::{READINGS, SLEW};

/// Time that passes at least at seven eighths and at most at nine eighths of its own pace, whatever
/// becomes of the system's clock; only forward it jumps, where that was set far ahead.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steady {
    /// The last time returned, and the monotonic time of that moment.
    time: i64,
    monotonic: i64,
    /// Offset of the system's clock from monotonic time, and the time of that measurement.
    ahead: i64,
    looked: i64,
    has_begun: bool,
}

impl Steady {
    /// Reads the time; the system's clock only every `every_ns`. `last` was returned already.
    pub fn read(&mut self, source: &mut impl Source, every_ns: i64, limits: Limits) -> i64 {
        let monotonic = source.monotonic();
        if !self.has_begun || monotonic.saturating_sub(self.looked) >= every_ns {
            (self.ahead, self.looked) = (ahead(source), monotonic);
        }
        self.at(monotonic, monotonic.saturating_add(self.ahead), limits)
    }

    /// The time at a moment of which monotonic and system's time are known.
    pub fn at(&mut self, monotonic: i64, system: i64, limits: Limits) -> i64 {
        let passed = monotonic.saturating_sub(self.monotonic).max(0);
        let onward = self.time.saturating_add(passed).max(limits.last);
        let error = system.saturating_sub(onward);
        let time = if !self.has_begun || error > limits.jump_ns {
            system.max(limits.last)
        } else {
            let most = passed / SLEW as i64;
            onward.saturating_add(error.clamp(-most, most)).max(limits.last)
        };
        self.go_on(monotonic, time);
        time
    }

    /// Goes on from a time that another phase returned.
    pub fn go_on(&mut self, monotonic: i64, time: i64) {
        (self.time, self.monotonic, self.has_begun) = (time, monotonic, true);
    }
}

/// The bounds of a reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The last time returned: time does not go back behind it.
    pub last: i64,
    /// Behind by more than this, it jumps.
    pub jump_ns: i64,
}

/// By how much the system's clock is ahead of monotonic time: of some readings the one that took
/// the least time.
pub(crate) fn ahead(source: &mut impl Source) -> i64 {
    let mut best: Option<(i64, i64)> = None;
    for _ in 0..READINGS {
        let before = source.monotonic();
        let system = source.system();
        let gap = source.monotonic().saturating_sub(before);
        if best.is_none_or(|(least, _)| gap < least) {
            best = Some((gap, system.saturating_sub(before.saturating_add(gap / 2))));
        }
    }
    best.map_or(0, |(_, ahead)| ahead)
}
