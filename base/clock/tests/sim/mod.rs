//! A machine with a counter and a system's clock.

use thruway_clock::Source;

pub const MILLISECOND: i64 = 1_000_000;
pub const SECOND: i64 = 1_000_000_000;

/// Nanoseconds that the readings take.
const CYCLES_NS: f64 = 9.0;
const SYSTEM_NS: f64 = 37.0;
/// An interrupt comes in one of so many readings, and takes so long.
const INTERRUPT_ONE_IN: u64 = 500;
const INTERRUPT_NS: f64 = 10_000.0;

/// True time passes only by [`Sim::pass`] and by reading.
pub struct Sim {
    /// Nanoseconds since the start, and since the counter or system's clock was last changed.
    elapsed: f64,
    counted: f64,
    /// What the counter shows, and how fast it runs.
    counter: u64,
    pub hertz: f64,
    /// What the system's clock shows, and by which part of one it is too fast.
    system: i64,
    timed: f64,
    /// The same, never set.
    monotonic: i64,
    pub drift: f64,
    /// By which part of one the counter's rate changes, at random, at each passing of time.
    pub wobble: f64,
    pub system_readings: u64,
    random: u64,
}

impl Sim {
    pub fn new(seed: u64) -> Sim {
        Sim {
            elapsed: 0.0,
            counted: 0.0,
            counter: 5_000_000_000,
            hertz: 2_445_123_456.0,
            system: 1_700_000_000 * SECOND,
            timed: 0.0,
            monotonic: 77 * SECOND,
            drift: 0.0,
            wobble: 0.0,
            system_readings: 0,
            random: seed,
        }
    }

    /// Splitmix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (mixed >> 31)
    }

    /// Between 0 and 1.
    fn part(&mut self) -> f64 {
        (self.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Lets time pass; whole cycles and nanoseconds are moved on, the rest is kept.
    fn step(&mut self, ns: f64) {
        self.elapsed += ns;
        self.counted += ns * self.hertz * 1e-9;
        self.counter = self.counter.wrapping_add(self.counted as u64);
        self.counted = self.counted.fract();
        self.timed += ns * (1.0 + self.drift);
        self.system = self.system.saturating_add(self.timed as i64);
        self.monotonic = self.monotonic.saturating_add(self.timed as i64);
        self.timed = self.timed.fract();
    }

    pub fn pass(&mut self, ns: i64) {
        let off = (self.part() - 0.5) * 2.0 * self.wobble;
        let hertz = self.hertz;
        self.hertz *= 1.0 + off;
        self.step(ns as f64);
        self.hertz = hertz;
    }

    /// A reading takes a little more or less each time, now and then much more.
    fn read(&mut self, ns: f64) {
        let jitter = self.part() * 4.0;
        let interrupt = self.random().is_multiple_of(INTERRUPT_ONE_IN);
        self.step(ns + jitter + if interrupt { INTERRUPT_NS } else { 0.0 });
    }

    /// Nanoseconds since the start.
    pub fn elapsed(&self) -> i64 {
        self.elapsed as i64
    }

    /// The system's clock, without the time that reading takes.
    pub fn system_now(&self) -> i64 {
        self.system
    }

    /// Sets the system's clock.
    pub fn system_by(&mut self, ns: i64) {
        self.system = self.system.saturating_add(ns);
    }

    /// Sets the counter.
    pub fn counter_by(&mut self, cycles: i64) {
        self.counter = self.counter.wrapping_add_signed(cycles);
    }

    /// The counter runs at another rate from now on.
    pub fn counter_to(&mut self, hertz: f64) {
        self.hertz = hertz;
    }
}

impl Source for Sim {
    fn cycles(&mut self) -> u64 {
        self.read(CYCLES_NS);
        self.counter
    }

    fn system(&mut self) -> i64 {
        self.system_readings += 1;
        self.read(SYSTEM_NS / 2.0);
        let shown = self.system;
        self.read(SYSTEM_NS / 2.0);
        shown
    }

    fn monotonic(&mut self) -> i64 {
        self.system_readings += 1;
        self.read(SYSTEM_NS / 2.0);
        let shown = self.monotonic;
        self.read(SYSTEM_NS / 2.0);
        shown
    }
}
