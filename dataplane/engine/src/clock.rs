//! The engine's time: by the cycle counter, the system's, or a simulated one that jumps to the next
//! event.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use thruway_clock::{Clock, ClockStats, Phase, Reference, Settings, Source, Why};
use thruway_packet::cycles;
use thruway_sync::Counter;

/// Which time elements see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockKind {
    /// The processor's cycle counter where it runs at one rate, corrected once a second by the
    /// system's real-time clock; else that clock.
    Tsc,
    /// The system's real-time clock, read in one of four rounds while there is work.
    System,
    /// Begins at this many nanoseconds since the epoch and moves only when nothing else can be
    /// done, to the next timer. Runs are repeatable and take no longer than their work.
    Simulated(i64),
}

/// Rounds between two looks at a clock that costs a call, while there is work.
const CLOCK_ROUNDS: u32 = 4;

/// Nanoseconds between two looks while the clock finds its rate.
pub(crate) const STABILISE_NS: u64 = 10_000_000;

/// This machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

impl Machine {
    /// A clock of this machine, for one thread.
    pub fn clock(self, reference: &Arc<Reference>) -> Clock {
        if has_constant_cycles() {
            Clock::new(Settings::default(), Arc::clone(reference))
        } else {
            Clock::system(Why::NotConstant)
        }
    }
}

impl Source for Machine {
    #[inline]
    fn cycles(&mut self) -> u64 {
        cycles()
    }

    #[inline]
    fn system(&mut self) -> i64 {
        real_now()
    }

    #[inline]
    fn monotonic(&mut self) -> i64 {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
    }
}

/// Whether the processor declares a constant rate of its cycle counter, independent of its cores.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub fn has_constant_cycles() -> bool {
    use core::arch::x86_64::__cpuid;
    /// Advanced power management information, and its bit of the invariant time stamp counter:
    /// Intel's manual, volume 3, section "Invariant TSC"; AMD's, volume 3, appendix E.
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
}

/// There is no counter that we read.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub fn has_constant_cycles() -> bool {
    false
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn real_now() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(_) => 0,
    }
}

/// The time of one thread.
pub(crate) struct Time {
    kind: ClockKind,
    clock: Clock,
    rounds: u32,
    /// The clock's change count at the last notification.
    notified: Option<u32>,
}

impl Time {
    pub fn new(kind: ClockKind, reference: &Arc<Reference>) -> Time {
        let clock = match kind {
            ClockKind::Tsc => Machine.clock(reference),
            ClockKind::System | ClockKind::Simulated(_) => Clock::system(Why::Chosen),
        };
        Time { kind, clock, rounds: 0, notified: None }
    }

    /// The time to begin with.
    pub fn start(&mut self) -> i64 {
        match self.kind {
            ClockKind::Simulated(start) => start,
            _ => self.clock.now(&mut Machine),
        }
    }

    /// The time at the begin of a round; `now` is that of the last one.
    #[inline]
    pub fn tick(&mut self, now: i64, idle: bool) -> i64 {
        self.rounds = self.rounds.wrapping_add(1);
        let look = self.clock.is_cheap() || idle || self.rounds.is_multiple_of(CLOCK_ROUNDS);
        if look { self.read(now) } else { now }
    }

    /// The time at once; `now` is what it was before.
    #[inline]
    pub fn read(&mut self, now: i64) -> i64 {
        match self.kind {
            ClockKind::Simulated(_) => now,
            _ => self.clock.now(&mut Machine),
        }
    }

    /// Whether time passes by itself.
    pub fn is_simulated(&self) -> bool {
        matches!(self.kind, ClockKind::Simulated(_))
    }

    /// Whether the clock wants to be read every [`STABILISE_NS`].
    pub fn is_settling(&self) -> bool {
        !self.is_simulated() && self.clock.is_settling()
    }

    /// Publishes the state of the clock, if that has changed.
    #[inline]
    pub fn publish(&mut self, words: &ClockWords) {
        let changes = self.clock.changes();
        if self.notified != Some(changes) {
            self.notified = Some(changes);
            words.set((self.clock.phase(), self.clock.stats()));
        }
    }
}

/// A thread's published clock statistics: it writes, any thread reads. Not a consistent snapshot.
#[derive(Debug)]
pub(crate) struct ClockWords([Counter; 7]);

/// By number; another number is the first one.
const PHASES: [Phase; 6] = [
    Phase::System(Why::Chosen),
    Phase::System(Why::NotConstant),
    Phase::System(Why::WentBack),
    Phase::Stabilising,
    Phase::Synchronising,
    Phase::Running,
];

impl ClockWords {
    pub fn new() -> ClockWords {
        ClockWords(std::array::from_fn(|_| Counter::new()))
    }

    fn set(&self, (phase, stats): (Phase, ClockStats)) {
        let phase = PHASES.iter().position(|one| *one == phase).unwrap_or(0);
        let words = [
            phase as u64,
            stats.hertz,
            stats.error_ns.cast_unsigned(),
            stats.looks,
            stats.jumps,
            stats.late,
            stats.failures,
        ];
        self.0.iter().zip(words).for_each(|(word, value)| word.set(value));
    }

    pub fn get(&self) -> (Phase, ClockStats) {
        let [phase, hertz, error, looks, jumps, late, failures] =
            std::array::from_fn(|at| self.0[at].get());
        let phase = PHASES.get(phase as usize).copied().unwrap_or(PHASES[0]);
        let error_ns = error.cast_signed();
        (phase, ClockStats { hertz, error_ns, looks, jumps, late, failures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_state_is_the_one_set() {
        let words = ClockWords::new();
        assert_eq!(words.get(), (Phase::System(Why::Chosen), ClockStats::default()));
        for phase in PHASES {
            let stats =
                ClockStats { hertz: 1, error_ns: -2, looks: 3, jumps: 4, late: 5, failures: 6 };
            words.set((phase, stats));
            assert_eq!(words.get(), (phase, stats));
        }
    }

    #[test]
    fn simulated_time_stands_still() {
        let mut time = Time::new(ClockKind::Simulated(7), &Arc::default());
        assert_eq!((time.start(), time.tick(8, true), time.read(9)), (7, 8, 9));
        assert!(!time.is_settling());
    }

    #[test]
    fn a_clock_of_this_machine_is_right() {
        for kind in [ClockKind::Tsc, ClockKind::System] {
            let mut time = Time::new(kind, &Arc::default());
            let begin = time.start();
            let mut now = begin;
            while now - begin < 400_000_000 {
                let before = real_now();
                let next = time.tick(now, true);
                // 50 us: between two readings the thread may wait for a processor.
                assert!(next >= now && next >= before - 50_000 && next <= real_now() + 50_000);
                now = next;
            }
        }
    }
}
