//! Whether a function delays the thread that serves it: how long the thread is blocked in its
//! rounds, and how long it works beside one that shares nothing with the function.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use thruway_nf_host::{FunctionSpec, HostError};
use thruway_region::{Pages, Region};
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::beat::{Beat, Pulse, Times};
use crate::storm::{NAP, Report, Shared, Storm};

/// How long a round may be blocked, and how much more it may work than one that shares nothing.
pub const GAP_MAX: Duration = Duration::from_millis(5);

/// Rounds that may seem to work for longer.
const TAKEN: usize = 3;

/// A round that lasts for so long is looked at: where in the kernel is the thread?
const LATE: Duration = Duration::from_millis(3);
const LOOK: Duration = Duration::from_millis(1);

/// A thread without any round for so long stands still: of a careful host for good, and one that
/// calls on what it shares is helped.
const STANDSTILL: Duration = Duration::from_secs(5);
const HELPED: Duration = Duration::from_millis(100);

/// What the host's thread is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// As the product's: it calls on open files of its own.
    Careful,
    /// As it was once: it reads from an open file that the function has, too, and trusts in its
    /// O_NONBLOCK. A run with it ends at the first delay.
    Trusting,
}

/// What was seen.
#[derive(Debug)]
pub struct Watched {
    /// What the Master did and found.
    pub report: Report,
    /// Rounds of the thread that serves the function.
    pub rounds: u64,
    /// How long it was blocked in a round, longest first.
    pub blocked: Times,
    /// How long it worked.
    pub worked: Times,
    /// How long a thread worked that shares nothing, in rounds alike.
    pub worked_alone: Times,
    /// Where in the kernel the thread was in long rounds, and how often it was seen there.
    pub locations: BTreeMap<String, u32>,
    /// How long the run took.
    pub time: Duration,
}

impl Watched {
    /// Whether the function held its host up: ever blocked it, or had it work for too long.
    ///
    /// What other threads take of the processors is in neither time. What interrupts and the
    /// machine below take counts as work: that happens to few rounds; what a function does, to
    /// many.
    pub fn is_held_up(&self) -> bool {
        self.blocked[0] > GAP_MAX || self.worked[TAKEN] > self.worked_alone[0] + GAP_MAX
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        let Watched { rounds, blocked, worked, worked_alone, time, .. } = self;
        writeln!(f, "{rounds} rounds in {time:.1?}; blocked {:.1?}", &blocked[..4])?;
        writeln!(f, "worked {:.1?}, sharing nothing {:.1?}", &worked[..4], &worked_alone[..4])?;
        let mut locations: Vec<_> = self.locations.iter().collect();
        locations.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        locations
            .iter()
            .take(6)
            .try_for_each(|(location, times)| writeln!(f, "{times} x in {location}"))
    }
}

/// Serves the hostile function and an honest one for so long.
///
/// # Errors
/// When the processes cannot be started.
///
/// # Panics
/// When the thread of a careful host stands still, and when something does not hold that must hold.
pub fn watch(
    hostile: FunctionSpec,
    honest: FunctionSpec,
    host: Host,
    time: Duration,
) -> Result<Watched, HostError> {
    let storm = Storm::new(hostile, honest)?;
    let shared = (host == Host::Trusting).then(Shared::default);
    let stop = Arc::new(AtomicBool::new(false));
    let (beat, pulse) = Beat::new();
    let (stopped, calls_on) = (Arc::clone(&stop), shared.clone());
    let serving = std::thread::spawn(move || {
        let mut storm = storm.beat(beat).trusting(calls_on);
        while !stopped.load(Ordering::Relaxed) {
            storm.round();
        }
        storm.end()
    });
    let (control_beat, control) = Beat::new();
    let stopped = Arc::clone(&stop);
    let alone = std::thread::spawn(move || rounds_alone(control_beat, &stopped));
    let begin = Instant::now();
    let locations = look_at(&serving, &pulse, shared.as_ref(), &stop, time);
    let time = begin.elapsed();
    let report = serving.join().expect("it serves both");
    alone.join().expect("it only sleeps");
    let (rounds, blocked, worked) = (pulse.rounds(), pulse.blocked(), pulse.worked());
    Ok(Watched { report, rounds, blocked, worked, worked_alone: control.worked(), locations, time })
}

/// Watches the serving thread until the time limit ends it.
fn look_at(
    serving: &JoinHandle<Report>,
    pulse: &Pulse,
    shared: Option<&Shared>,
    stop: &AtomicBool,
    time: Duration,
) -> BTreeMap<String, u32> {
    let begin = Instant::now();
    let mut locations = BTreeMap::new();
    while !serving.is_finished() {
        std::thread::sleep(LOOK);
        let age = pulse.age();
        if age > LATE
            && let Some(location) = pulse.location()
        {
            *locations.entry(location).or_default() += 1;
        }
        let is_found = shared.is_some() && (age > HELPED || pulse.blocked()[0] > GAP_MAX);
        stop.fetch_or(begin.elapsed() > time || is_found, Ordering::Relaxed);
        match shared {
            Some(shared) if age > HELPED => shared.help(),
            _ => assert!(age < STANDSTILL, "the serving thread stands still: {locations:#?}"),
        }
    }
    locations
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
