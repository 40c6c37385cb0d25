//! Whether a function delays the thread that serves it: the thread's rounds beside those of one
//! that shares nothing with the function.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use thruway_nf_host::{FunctionSpec, HostError};
use thruway_region::{Pages, Region};
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::Beat;
use crate::beat::KEPT;
use crate::storm::{NAP, Report, Storm};

/// How much longer than the longest round of a thread that shares nothing a round may be.
pub const GAP_MAX: Duration = Duration::from_millis(5);

/// Rounds in which it blocked for too long that say nothing, and how long they may be.
const OUTLIERS: usize = 2;
const OUTLIER_MAX: Duration = Duration::from_millis(100);

/// A thread without any round for so long stands still for good.
const STANDSTILL: Duration = Duration::from_secs(5);

/// What was seen.
#[derive(Debug)]
pub struct Watched {
    /// What the Master did and found.
    pub report: Report,
    /// Rounds of the thread that serves the function.
    pub rounds: u64,
    /// The longest of them in which it blocked, longest first.
    pub blocked: Times,
    /// The longest of all.
    pub running: Times,
    /// The longest rounds of a thread that works and sleeps as the other does, and shares nothing.
    pub control: [Times; 2],
}

/// The longest first.
type Times = [Duration; KEPT];

impl Watched {
    /// Whether the function held its host up, beyond what happens to a thread that shares nothing.
    ///
    /// Once or twice in a run it is another thread of this process that did, which held a lock of
    /// the kernel's (that of the address space) when the machine, busy with others, stopped it:
    /// those may take longer, though not long. And what the machine itself took from this thread
    /// is not known: only if most of its longest rounds are too long, it is not that.
    pub fn is_held_up(&self) -> bool {
        let [blocked, running] = [self.control[0][0], self.control[1][0]];
        self.blocked[0] > blocked + OUTLIER_MAX
            || self.blocked[OUTLIERS] > blocked + GAP_MAX
            || self.running[KEPT - 1] > running + GAP_MAX
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        let Watched { rounds, blocked, running, control, .. } = self;
        writeln!(f, "{rounds} rounds; blocked {blocked:.1?}, sharing nothing {:.1?}", control[0])?;
        writeln!(f, "all {running:.1?}, sharing nothing {:.1?}", control[1])
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
    while !serving.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        stop.fetch_or(Instant::now() > end, Ordering::Relaxed);
        if pulse.rounds() != seen {
            (seen, at) = (pulse.rounds(), Instant::now());
        }
        assert!(at.elapsed() < STANDSTILL, "the thread that serves the function stands still");
    }
    let report = serving.join().expect("it serves both");
    let (rounds, blocked, running) = (pulse.rounds(), pulse.blocked(), pulse.running());
    alone.join().expect("it only sleeps");
    let control = [control.blocked(), control.running()];
    Ok(Watched { report, rounds, blocked, running, control })
}

/// Rounds with as much work and as many sleeps as the Master's.
fn rounds_alone(mut beat: Beat, stop: &AtomicBool) {
    let own = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a descriptor");
    while !stop.load(Ordering::Relaxed) {
        beat.mark();
        // As a link that comes and goes.
        let region = Region::new(64 << 10, Pages::Normal).expect("memory");
        for _ in 0..16 {
            region.copy_in(0, &[1; 64 << 10]).expect("within");
        }
        drop(region);
        for _ in 0..2 {
            let _ = rustix::io::read(&own, &mut [0; 8]);
            beat.pause();
            let _ = rustix::event::poll(&mut [PollFd::new(&own, PollFlags::IN)], Some(&NAP));
            beat.resume();
        }
    }
}
