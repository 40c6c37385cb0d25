//! What a reading costs: the clock against the system's clocks, turn by turn.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use thruway_clock::{Clock, Reference, Source};
use thruway_engine::Machine;

use crate::measure::read_clock;
use crate::row::median;

/// Readings of a turn.
const READINGS: u32 = 200_000;
/// Longest wait until the clock runs by the counter.
const STABLE_MAX: Duration = Duration::from_secs(5);

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    Clock,
    Cycles,
    System(ClockId),
}

/// All that is compared; the first one is the unit.
pub const ALL: [(&str, Read); 6] = [
    ("CLOCK_REALTIME", Read::System(ClockId::Realtime)),
    ("CLOCK_MONOTONIC", Read::System(ClockId::Monotonic)),
    ("CLOCK_REALTIME_COARSE", Read::System(ClockId::RealtimeCoarse)),
    ("CLOCK_MONOTONIC_COARSE", Read::System(ClockId::MonotonicCoarse)),
    ("cycle counter alone", Read::Cycles),
    ("thruway's clock", Read::Clock),
];

/// Nanoseconds of CPU time per reading.
#[derive(Debug, Clone)]
pub struct Cost {
    pub name: &'static str,
    pub ns: f64,
    pub ns_min: f64,
    pub ns_max: f64,
    /// The first one's, in units of this: the median of the turns.
    pub ratio: f64,
    /// What the clock was at.
    pub phase: Option<String>,
}

/// A clock that runs by the counter, if that is to be had here.
pub fn settled() -> Clock {
    let (mut machine, begin) = (Machine, Instant::now());
    let mut clock = machine.clock(&Arc::new(Reference::default()));
    while !clock.is_cheap() && begin.elapsed() < STABLE_MAX {
        clock.now(&mut machine);
        std::thread::sleep(Duration::from_millis(1));
    }
    clock
}

/// Nanoseconds of CPU time per reading of a turn.
fn turn(read: Read, clock: &mut Clock) -> f64 {
    let mut machine = Machine;
    let begin = read_clock(ClockId::ThreadCPUTime);
    match read {
        Read::Clock => (0..READINGS).for_each(|_| {
            black_box(clock.now(&mut machine));
        }),
        Read::Cycles => (0..READINGS).for_each(|_| {
            black_box(machine.cycles());
        }),
        Read::System(id) => (0..READINGS).for_each(|_| {
            black_box(clock_gettime(id));
        }),
    }
    let spent = read_clock(ClockId::ThreadCPUTime).saturating_sub(begin);
    spent as f64 / f64::from(READINGS)
}

/// Measures all, turn by turn.
pub fn measure(repeats: u32) -> Vec<Cost> {
    let mut clock = settled();
    let mut turns: Vec<[f64; ALL.len()]> = Vec::new();
    for _ in 0..repeats {
        turns.push(ALL.map(|(_, read)| turn(read, &mut clock)));
    }
    let cost = |(at, (name, read)): (usize, &(&'static str, Read))| {
        let ns = || turns.iter().map(|turn| turn[at]);
        Cost {
            name,
            ns: median(ns()),
            ns_min: ns().fold(f64::INFINITY, f64::min),
            ns_max: ns().fold(0.0, f64::max),
            ratio: median(turns.iter().map(|turn| turn[0] / turn[at])),
            phase: (*read == Read::Clock).then(|| clock.phase().to_string()),
        }
    };
    ALL.iter().enumerate().map(cost).collect()
}
