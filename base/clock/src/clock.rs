//! The clock: its phases, and a reading.

use std::fmt;
use std::sync::Arc;

use crate::converge::{Stabilising, Step, Synchronising};
use crate::pair::Pair;
use crate::rate::Rate;
use crate::settings::{BACK_MAX, LEARN, PAUSE_MAX_NS, SLEW, STRANGE_PPM, STRANGE_RUNS, Settings};
use crate::steady::{Limits, Steady};
use crate::{Reference, Source};

/// Why a clock uses the system's time for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The user wanted it so.
    Chosen,
    /// The processor does not promise that its counter runs at one rate, or has none.
    NotConstant,
    /// The counter has gone back several times.
    WentBack,
}

/// The phase of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Returns the system's time, and measures the counter's rate.
    Stabilising,
    /// Returns the system's time, and verifies the rate where this thread runs.
    Synchronising,
    /// Returns the counter's time.
    Running,
    /// Returns the system's time.
    System(Why),
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Stabilising => "stabilising",
            Phase::Synchronising => "synchronising",
            Phase::Running => "running",
            Phase::System(Why::Chosen) => "system",
            Phase::System(Why::NotConstant) => "system (no constant cycle counter)",
            Phase::System(Why::WentBack) => "system (the cycle counter went back)",
        })
    }
}

/// Statistics of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockStats {
    /// Cycles per second according to the clock, once it has run; 0 before.
    pub hertz: u64,
    /// By how much the system's clock was ahead at the last look while it ran, nanoseconds.
    pub error_ns: i64,
    /// Looks at the system's clock while it ran.
    pub looks: u64,
    /// Times that it jumped to catch up.
    pub jumps: u64,
    /// Times that the thread read the clock too late, and so had to synchronise again.
    pub late: u64,
    /// Times that a phase failed or the counter misbehaved.
    pub failures: u64,
}

#[derive(Debug)]
enum ClockState {
    Begin,
    /// After a failure, so long.
    Pause(i64),
    Stabilising(Stabilising),
    Synchronising(Synchronising),
    Running(Running),
    System(Why),
}

#[derive(Debug)]
struct Running {
    /// The rate, without the correction.
    base: Rate,
    /// The last look.
    seen: Pair,
    /// Nanoseconds until the next one.
    interval_ns: i64,
    /// Looks so far, up to [`LEARN`]: the first ones weigh more.
    weight: u64,
    /// Stretches one after the other in which the rate seemed strange.
    strange: u32,
}

/// The time of one thread: nanoseconds since the Unix epoch, never less than it returned before.
///
/// It belongs to its thread: nothing in it is shared, so that a reading touches one cache line that
/// no other thread writes.
#[derive(Debug)]
#[repr(align(64))]
pub struct Clock {
    /// The time at `cycles`, and its progress from there.
    time: i64,
    cycles: u64,
    rate: Rate,
    /// Cycles after which to look at the system's clock; 0 unless running.
    due: u64,
    /// The last time returned.
    last: i64,
    /// Looks and phases, to see that something has changed.
    changes: u32,

    state: ClockState,
    /// The time where it does not run by the counter.
    steady: Steady,
    /// Monotonic time of the last look, until it runs.
    looked: i64,
    /// Failures since it last ran, and times that the counter went back.
    failed: u32,
    back: u32,
    stats: ClockStats,
    settings: Settings,
    reference: Arc<Reference>,
}

impl Clock {
    /// A clock that begins with the system's time. The threads of a program share `reference`.
    pub fn new(settings: Settings, reference: Arc<Reference>) -> Clock {
        Clock {
            time: 0,
            cycles: 0,
            rate: Rate::ONE,
            due: 0,
            last: i64::MIN,
            changes: 0,
            state: ClockState::Begin,
            steady: Steady::default(),
            looked: 0,
            failed: 0,
            back: 0,
            stats: ClockStats::default(),
            settings,
            reference,
        }
    }

    /// A clock that uses the system's time.
    pub fn system(why: Why) -> Clock {
        let clock = Clock::new(Settings::default(), Arc::default());
        Clock { state: ClockState::System(why), ..clock }
    }

    /// The time.
    #[inline]
    pub fn now(&mut self, source: &mut impl Source) -> i64 {
        if self.due > 0 {
            let since = source.cycles().wrapping_sub(self.cycles);
            // A counter that went back behind `cycles` has a huge difference: more than is due.
            if since < self.due {
                // Past the year 2262 it wraps, and that is less than `last`.
                let time = self.time.wrapping_add(self.rate.ns(since));
                if time >= self.last {
                    self.last = time;
                    return time;
                }
            }
        }
        self.read_reference(source)
    }

    /// Whether a reading costs no more than the counter does.
    #[inline]
    pub fn is_cheap(&self) -> bool {
        self.due > 0
    }

    /// Whether it wants to be read again soon, to get through the phases before it runs.
    pub fn is_settling(&self) -> bool {
        matches!(
            self.state,
            ClockState::Begin | ClockState::Stabilising(_) | ClockState::Synchronising(_)
        )
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        match self.state {
            ClockState::Begin | ClockState::Pause(_) | ClockState::Stabilising(_) => {
                Phase::Stabilising
            }
            ClockState::Synchronising(_) => Phase::Synchronising,
            ClockState::Running(_) => Phase::Running,
            ClockState::System(why) => Phase::System(why),
        }
    }

    /// A number that is another one whenever [`Clock::phase`] or [`Clock::stats`] may be.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Its statistics.
    pub fn stats(&self) -> ClockStats {
        self.stats
    }

    /// A reading with a look at the system's clock.
    #[cold]
    #[inline(never)]
    fn read_reference(&mut self, source: &mut impl Source) -> i64 {
        let time = match self.state {
            ClockState::System(_) => self.read_steady(source),
            ClockState::Running(_) => self.accumulate(source),
            _ => self.converge(source),
        };
        self.last = self.last.max(time);
        self.last
    }

    /// The phases before it runs.
    fn converge(&mut self, source: &mut impl Source) -> i64 {
        let monotonic = source.monotonic();
        let passed = monotonic.saturating_sub(self.looked);
        let tick = match self.state {
            ClockState::Begin => 0,
            ClockState::Pause(pause) => pause,
            _ => self.settings.tick_ns,
        };
        if passed < tick && !matches!(self.state, ClockState::Begin) {
            return self.read_steady(source);
        }
        let Some(pair) = Pair::read(source) else {
            self.went_back();
            return self.read_steady(source);
        };
        self.changes = self.changes.wrapping_add(1);
        self.looked = pair.monotonic;
        let time = self.steady_at(&pair);
        let settings = self.settings;
        match &mut self.state {
            ClockState::Stabilising(state) => match state.observe(pair, &settings) {
                Step::On => {
                    if let Some(rate) = self.reference.get() {
                        self.state = ClockState::Synchronising(Synchronising::begin(pair, rate));
                    }
                }
                Step::Done(rate) => {
                    self.reference.publish(rate);
                    self.state = ClockState::Synchronising(Synchronising::begin(pair, rate));
                }
                Step::Failed => self.fail(),
            },
            ClockState::Synchronising(state) => match state.observe(pair, &settings) {
                Step::On => {}
                Step::Done(rate) => {
                    let anchor = state.anchor();
                    let since = anchor.monotonic.saturating_sub(pair.monotonic);
                    self.start(source, (anchor, time.saturating_add(since)), rate);
                }
                Step::Failed => {
                    let rate = state.rate;
                    self.reference.withdraw(rate);
                    self.fail();
                }
            },
            _ => {
                self.state = match self.reference.get() {
                    Some(rate) => ClockState::Synchronising(Synchronising::begin(pair, rate)),
                    None => ClockState::Stabilising(Stabilising::begin(pair)),
                };
            }
        }
        time
    }

    /// The time of a moment, where it does not run by the counter.
    fn steady_at(&mut self, pair: &Pair) -> i64 {
        let limits = self.limits();
        self.steady.at(pair.monotonic, pair.system, limits)
    }

    /// The present time, where it does not run by the counter.
    fn read_steady(&mut self, source: &mut impl Source) -> i64 {
        let limits = self.limits();
        self.steady.read(source, self.settings.tick_ns, limits)
    }

    fn limits(&self) -> Limits {
        Limits { last: self.last, jump_ns: self.settings.jump_ns }
    }

    /// Begins to read the time from the counter, from the time of its anchor on.
    fn start(&mut self, source: &mut impl Source, (anchor, time): (Pair, i64), rate: Rate) {
        self.failed = 0;
        let interval_ns = (self.settings.tick_ns * 10).min(self.settings.accumulate_ns);
        self.state = ClockState::Running(Running {
            base: rate,
            seen: anchor,
            interval_ns,
            weight: 0,
            strange: 0,
        });
        (self.time, self.cycles) = (time, anchor.cycles);
        self.go_on(source, rate);
        self.due = rate.cycles(interval_ns.unsigned_abs()).max(1);
    }

    /// Goes on from this moment at another rate, from the time returned for it.
    fn go_on(&mut self, source: &mut impl Source, rate: Rate) {
        // A counter that goes back just here is found by the next reading.
        let cycles = source.cycles().max(self.cycles);
        let time = self.time.saturating_add(self.rate_until(rate).ns(cycles - self.cycles));
        (self.time, self.cycles) = (time.max(self.last), cycles);
        self.rate = rate;
    }

    /// The rate that holds up to this moment: when the clock starts, the one that it starts with.
    fn rate_until(&self, rate: Rate) -> Rate {
        if self.due > 0 { self.rate } else { rate }
    }

    /// The look at the system's clock while it runs.
    fn accumulate(&mut self, source: &mut impl Source) -> i64 {
        self.changes = self.changes.wrapping_add(1);
        let forward = self.due..=u64::MAX / 2;
        let since = |pair: &Pair| pair.cycles.wrapping_sub(self.cycles);
        let pair = Pair::read(source).filter(|pair| forward.contains(&since(pair)));
        let Some(pair) = pair else {
            self.went_back();
            return self.read_steady(source);
        };
        let since = since(&pair);
        let settings = self.settings;
        let ClockState::Running(running) = &mut self.state else { return self.read_steady(source) };
        if running.base.ns(since) >= settings.late_ns {
            self.stats.late += 1;
            let rate = running.base;
            self.leave(ClockState::Synchronising(Synchronising::begin(pair, rate)), pair.monotonic);
            return self.steady_at(&pair);
        }
        let stats = self.time.saturating_add(self.rate.ns(since));
        let error = pair.system.saturating_sub(stats);
        (self.stats.error_ns, self.stats.looks) = (error, self.stats.looks + 1);
        if !running.learn(pair) {
            let rate = running.base;
            self.reference.withdraw(rate);
            self.fail();
            return self.steady_at(&pair);
        }
        running.interval_ns = (running.interval_ns * 2).min(settings.accumulate_ns);
        let (base, interval_ns) = (running.base, running.interval_ns);
        if error > settings.jump_ns {
            self.stats.jumps += 1;
            self.steady.go_on(pair.monotonic, pair.system);
            (self.time, self.cycles) = (pair.system, pair.cycles);
            self.go_on(source, base);
        } else {
            self.steady.go_on(pair.monotonic, stats);
            self.go_on(source, base.slewed(error, interval_ns, SLEW));
        }
        self.due = base.cycles(interval_ns.unsigned_abs()).max(1);
        self.stats.hertz = base.hertz();
        self.time
    }

    /// The counter went back: it was reset, or this thread has moved to a core with a counter that
    /// is behind.
    fn went_back(&mut self) {
        self.back += 1;
        if self.back < BACK_MAX {
            self.fail();
        } else {
            self.stats.failures += 1;
            self.changes = self.changes.wrapping_add(1);
            self.leave(ClockState::System(Why::WentBack), self.looked);
        }
    }

    /// Begins again after a pause, which is longer each time.
    fn fail(&mut self) {
        self.stats.failures += 1;
        let pause = self.settings.tick_ns.saturating_mul(1 << self.failed.min(30));
        self.failed += 1;
        self.leave(ClockState::Pause(pause.min(PAUSE_MAX_NS)), self.looked);
    }

    /// Returns the system's time from now on.
    fn leave(&mut self, state: ClockState, looked: i64) {
        self.due = 0;
        (self.state, self.looked) = (state, looked);
    }
}

impl Running {
    /// Learns the rate from the time since the last reading; false when the counter runs at an
    /// entirely different rate.
    fn learn(&mut self, pair: Pair) -> bool {
        let seen = std::mem::replace(&mut self.seen, pair);
        let ns = pair.monotonic.wrapping_sub(seen.monotonic);
        let rate = Rate::of(ns, pair.cycles.wrapping_sub(seen.cycles));
        match rate.filter(|rate| rate.ppm_from(self.base) <= STRANGE_PPM) {
            Some(rate) => {
                self.strange = 0;
                self.weight = (self.weight + 1).min(LEARN);
                self.base = self.base.towards(rate, self.weight);
            }
            // The thread was moved or stopped between two readings: nothing to learn; unless it is
            // always so.
            None => self.strange += 1,
        }
        self.strange < STRANGE_RUNS
    }
}
