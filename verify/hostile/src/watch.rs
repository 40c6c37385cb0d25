//! Whether a function delays the thread that serves it: the thread's rounds beside those of one
//! that shares nothing with the function.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use thruway_nf_host::{FunctionSpec, HostError};
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::Beat;
use crate::storm::{NAP, Report, Storm};

/// How much longer than the longest round of a thread that shares nothing a round may be.
pub const GAP_MAX: Duration = Duration::from_millis(5);

/// A thread without any round for so long stands still for good.
const STANDSTILL: Duration = Duration::from_secs(5);

/// What was seen.
#[derive(Debug)]
pub struct Watched {
    /// What the Master did and found.
    pub report: Report,
    /// Rounds of the thread that serves the function.
    pub rounds: u64,
    /// The longest of them.
    pub longest: Duration,
    /// The longest round of a thread that sleeps and wakes as the other does, and shares nothing.
    pub control: Duration,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        let Watched { rounds, longest, control, .. } = self;
        writeln!(f, "{rounds} rounds; longest {longest:?}, sharing nothing {control:?}")
    }
}

/// Serves the hostile function and an honest one for so long.
///
/// # Errors
/// When the processes cannot be started.
///
/// # Panics
/// When the thread that serves the function stands still, and when something does not hold that
/// must hold.
pub fn watch(
    hostile: FunctionSpec,
    honest: FunctionSpec,
    time: Duration,
) -> Result<Watched, HostError> {
    let storm = Storm::new(hostile, honest)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (beat, pulse) = Beat::new();
    let stopped = Arc::clone(&stop);
    let serving = std::thread::spawn(move || {
        let mut storm = storm.beat(beat);
        while !stopped.load(Ordering::Relaxed) {
            storm.round();
        }
        storm.end()
    });
    let (control_beat, control) = Beat::new();
    let stopped = Arc::clone(&stop);
    let alone = std::thread::spawn(move || rounds_alone(control_beat, &stopped));
    let end = Instant::now() + time;
    let (mut seen, mut at) = (0, Instant::now());
    while Instant::now() < end && !serving.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        if pulse.rounds() != seen {
            (seen, at) = (pulse.rounds(), Instant::now());
        }
        assert!(at.elapsed() < STANDSTILL, "the thread that serves the function stands still");
    }
    let (rounds, longest) = (pulse.rounds(), pulse.longest());
    stop.store(true, Ordering::Relaxed);
    let report = serving.join().expect("it serves both");
    alone.join().expect("it only sleeps");
    Ok(Watched { report, rounds, longest, control: control.longest() })
}

/// Rounds with as many sleeps as the Master's.
fn rounds_alone(mut beat: Beat, stop: &AtomicBool) {
    let own = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a descriptor");
    while !stop.load(Ordering::Relaxed) {
        beat.mark();
        for _ in 0..2 {
            let _ = rustix::io::read(&own, &mut [0; 8]);
            let _ = rustix::event::poll(&mut [PollFd::new(&own, PollFlags::IN)], Some(&NAP));
        }
    }
}
