//! Settings of a clock.

/// How a [`crate::Clock`] finds its rate and keeps it.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Nanoseconds between two looks at the system's clock until the clock runs.
    pub tick_ns: i64,
    /// How far the counter's time may be off to be good, nanoseconds.
    pub error_ns: i64,
    /// How many looks one after the other must be good, in either phase.
    pub runs: u32,
    /// Nanoseconds between two looks at the system's clock when it runs.
    pub accumulate_ns: i64,
    /// A reading later than this comes from a thread that was away too long: it must synchronise
    /// the clock again.
    pub late_ns: i64,
    /// Behind by more than this, it jumps.
    pub jump_ns: i64,
}

impl Default for Settings {
    /// As in section 3.4.1 of the thesis.
    fn default() -> Settings {
        Settings {
            tick_ns: 10_000_000,
            error_ns: 100,
            runs: 10,
            accumulate_ns: 1_000_000_000,
            late_ns: 2_000_000_000,
            jump_ns: 1_000_000_000,
        }
    }
}

/// To run slower or faster than by one part in so many is not time any more: what is more than that
/// takes longer. (A clock that the system set back by a second is level again after eight.)
pub(crate) const SLEW: u64 = 8;

/// A stretch in which the rate seemed to be off by more than this is nothing to learn from. NTP
/// moves a clock by 500 at most.
pub(crate) const STRANGE_PPM: u64 = 1_000;

/// Such stretches one after the other after which it is the counter that has changed.
pub(crate) const STRANGE_RUNS: u32 = 4;

/// Readings of one look; the one in which the least time passed counts.
pub(crate) const READINGS: usize = 5;

/// Before it runs, the weight of one look at the rate is one in so many: over 10 ms the two
/// readings make an error of some millionths.
pub(crate) const WEIGHT: u64 = 4;

/// The same while it runs: over a second they make a hundredth of that.
pub(crate) const LEARN: u64 = 2;

/// Looks in vain after which synchronisation is given up, and the rate is looked for again.
pub(crate) const TRIES: u32 = 50;

/// Longest pause after so many failures, nanoseconds: the disturbance may be gone by then.
pub(crate) const PAUSE_MAX_NS: i64 = 64_000_000_000;

/// How often a counter may go back before it is not used any more: a sleep of the whole machine
/// sets it back, too.
pub(crate) const BACK_MAX: u32 = 4;
