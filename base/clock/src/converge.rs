//! The two phases before a clock runs.

use crate::pair::Pair;
use crate::rate::Rate;
use crate::settings::{Settings, TRIES, WEIGHT};

/// The result of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// More looks are needed.
    On,
    /// The phase is over, with this rate.
    Done(Rate),
    /// It has to begin again.
    Failed,
}

/// How many looks were good one after the other, and since when.
#[derive(Debug, Clone, Copy)]
struct Streak {
    good: u32,
    since: Pair,
}

impl Streak {
    /// Takes a look `pair` into account, which came after `before`; the rate over the whole streak
    /// once that is long enough: it is known better than that of any part.
    fn add(&mut self, good: bool, before: Pair, pair: Pair, runs: u32) -> Option<Rate> {
        if !good {
            self.good = 0;
            return None;
        }
        if self.good == 0 {
            self.since = before;
        }
        self.good += 1;
        let ns = pair.monotonic.wrapping_sub(self.since.monotonic);
        let rate = Rate::of(ns, pair.cycles.wrapping_sub(self.since.cycles));
        rate.filter(|_| self.good >= runs)
    }
}

/// Stabilisation: a weighted average of the rate that the counter seemed to have between two looks,
/// until it foretells the next ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stabilising {
    before: Pair,
    rate: Option<Rate>,
    streak: Streak,
    misses: u32,
}

impl Stabilising {
    pub fn begin(pair: Pair) -> Stabilising {
        let streak = Streak { good: 0, since: pair };
        Stabilising { before: pair, rate: None, streak, misses: 0 }
    }

    pub fn observe(&mut self, pair: Pair, settings: &Settings) -> Step {
        let before = std::mem::replace(&mut self.before, pair);
        let cycles = pair.cycles.wrapping_sub(before.cycles);
        let ns = pair.monotonic.wrapping_sub(before.monotonic);
        let Some(seen) = Rate::of(ns, cycles) else { return Step::Failed };
        let Some(rate) = self.rate else {
            self.rate = Some(seen);
            return Step::On;
        };
        self.rate = Some(rate.towards(seen, WEIGHT));
        let error = rate.ns(cycles).saturating_sub(ns).saturating_abs();
        let good = error <= settings.error_ns && is_sharp(pair, rate, settings);
        if let Some(rate) = self.streak.add(good, before, pair, settings.runs) {
            return Step::Done(rate);
        }
        self.misses += u32::from(!good);
        if self.misses >= settings.runs { Step::Failed } else { Step::On }
    }
}

/// Whether both clocks were read within so little time that the moment is known.
fn is_sharp(pair: Pair, rate: Rate, settings: &Settings) -> bool {
    rate.ns(pair.gap) / 2 <= settings.error_ns
}

/// Synchronisation: whether the rate foretells monotonic time where this thread runs, and from
/// which moment on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Synchronising {
    pub rate: Rate,
    /// Counter and time that belong together here: the thread's offset.
    anchor: Pair,
    before: Pair,
    streak: Streak,
    tries: u32,
}

impl Synchronising {
    pub fn begin(pair: Pair, rate: Rate) -> Synchronising {
        let streak = Streak { good: 0, since: pair };
        Synchronising { rate, anchor: pair, before: pair, streak, tries: 0 }
    }

    pub fn observe(&mut self, pair: Pair, settings: &Settings) -> Step {
        let before = std::mem::replace(&mut self.before, pair);
        let since = self.rate.ns(pair.cycles.wrapping_sub(self.anchor.cycles));
        let stats = self.anchor.monotonic.saturating_add(since);
        let error = pair.monotonic.saturating_sub(stats);
        let sharp = is_sharp(pair, self.rate, settings);
        let good = error.saturating_abs() <= settings.error_ns && sharp;
        // Half of the error is assumed to be in the offset; if it is too large for that, the clock
        // starts again from here.
        let monotonic = if good { stats.saturating_add(error / 2) } else { pair.monotonic };
        self.anchor = Pair { monotonic, ..pair };
        if let Some(rate) = self.streak.add(good, before, pair, settings.runs) {
            return Step::Done(rate);
        }
        self.tries += 1;
        if self.tries >= TRIES { Step::Failed } else { Step::On }
    }

    /// Counter and time that belong together.
    pub fn anchor(&self) -> Pair {
        self.anchor
    }
}
