//! User settings of a thread's flow manager, and the unit of its times.

use crate::life::{Life, Phase, Timeouts};
use crate::manager::level::Bounds;

/// Nanoseconds of a tick: sessions' times are 32 bits of these.
pub const TICK_NS: i64 = 1 << 26;

/// A time in ticks.
#[inline]
pub(crate) fn ticks(now: i64) -> u32 {
    (now / TICK_NS) as u32
}

/// User settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many sessions of one level a thread keeps.
    pub bounds: Bounds,
    /// How long.
    pub timeouts: Timeouts,
    /// Secrets of the hash.
    pub seeds: [u64; 2],
    /// Whether packets that no element downstream needs are dropped at once.
    pub early_drop: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let bounds = Bounds { sessions_max: 1 << 20, embryonic_max: 1 << 18 };
        Settings { bounds, timeouts: Timeouts::default(), seeds: [0; 2], early_drop: true }
    }
}

/// Ticks after which a session of each life is over, by [`Life`]'s bits.
pub(super) type Limits = Box<[u32; 256]>;

/// Limits in ticks; an open session's is what a function asked for, if one did, that of a closing
/// or closed one at least what one asked for.
pub(super) fn limits_of(timeouts: &Timeouts, (open, closed): (Option<u32>, Option<u32>)) -> Limits {
    let ticks_of = |seconds: u32| {
        u32::try_from(i64::from(seconds) * 1_000_000_000 / TICK_NS).unwrap_or(u32::MAX / 2).max(1)
    };
    Box::new(std::array::from_fn(|bits| {
        let life = Life(bits as u8);
        let usual = timeouts.of(life);
        ticks_of(match life.phase() {
            Phase::New => usual,
            Phase::Open => open.unwrap_or(usual),
            Phase::Closing | Phase::Closed => usual.max(closed.unwrap_or(0)),
        })
    }))
}
