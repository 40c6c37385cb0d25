//! The clock beside the system's, from its first moment on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_clock::{Phase, Reference, Source};
use thruway_engine::Machine;

/// Between two comparisons.
const STEP: Duration = Duration::from_millis(1);

/// One comparison.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Nanoseconds since the start.
    pub at: i64,
    pub phase: Phase,
    /// Clock less system's clock, nanoseconds: against the middle of the two readings around it.
    pub error: i64,
    /// Between the two readings of the system's clock: much more than usual means an interruption,
    /// and an error that nobody knows.
    pub gap: i64,
    /// Between two readings of the clock, one right after the other.
    pub reading: i64,
}

/// Compares every millisecond.
pub fn follow(time: Duration) -> Vec<Point> {
    let (mut machine, mut points) = (Machine, Vec::new());
    let mut clock = machine.clock(&Arc::new(Reference::default()));
    let begin = Instant::now();
    let mut next = begin;
    while begin.elapsed() < time {
        let before = machine.system();
        let shown = clock.now(&mut machine);
        let after = machine.system();
        let again = (clock.now(&mut machine), clock.now(&mut machine));
        points.push(Point {
            at: begin.elapsed().as_nanos() as i64,
            phase: clock.phase(),
            error: shown - (before + (after - before) / 2),
            gap: after - before,
            reading: again.1 - again.0,
        });
        next += STEP;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    points
}
