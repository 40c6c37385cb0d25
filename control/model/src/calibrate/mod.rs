//! Calibration: what this host is, measured.
//!
//! All of it is interleaved and repeated: of measurements that are close together the shortest
//! counts, since whatever disturbs them makes them longer, and of these the median. Operations are
//! differences between configurations that the real engine runs; see `carriers`.

mod carriers;
mod cores;
mod levels;
mod machine;
mod memory;
mod operations;
pub(crate) mod statistics;
mod traffic;
mod workload;

use std::time::{Duration, SystemTime};

pub use machine::{allowed, bind};
pub use statistics::{Summary, quantile};

use crate::Hardware;
use crate::hardware::BetweenCores;
use machine::Machine;

/// Why a host cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The thread stays where the system puts it.
    #[error(
        "this thread cannot be bound to core {core}, and what moves about cannot be measured: \
         choose another with --core (this process may use: {choice}), or allow it to the process"
    )]
    NotBound {
        /// The core that was asked for.
        core: usize,
        /// Those that may be used.
        choice: String,
    },
    /// No cycles to count.
    #[error("no time stamp counter counts here, and there is nothing to measure cycles by")]
    NoClock,
    /// A configuration of ours does not do what it should.
    #[error("the carrier of {name}: {why}")]
    Carrier {
        /// Of which operation.
        name: String,
        /// In the words of who noticed.
        why: String,
    },
    /// No memory.
    #[error("no memory to measure: {0}")]
    Memory(#[from] thruway_region::RegionError),
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The core to measure on; else the highest that the process may use.
    pub core: Option<usize>,
    /// What to call the host; else its own name.
    pub name: Option<String>,
    /// Less of everything: a few seconds, and numbers to match.
    pub is_quick: bool,
}

/// A host, measured.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Its description.
    pub hardware: Hardware,
    /// The processor's name.
    pub model: String,
    /// The core that was measured on.
    pub core: usize,
    /// What was left out and why, and what to know of the numbers.
    pub notes: Vec<String>,
}

/// How much is measured.
struct Effort {
    /// Rounds over which the median is taken.
    rounds: usize,
    /// Measurements of which a round takes the lowest.
    tries: usize,
    /// Cycles of one measurement.
    cycles: f64,
    /// Turns of a line between two cores.
    turns: u32,
    /// How long all cores read at once.
    stretch: Duration,
}

impl Effort {
    fn of(settings: &Settings) -> Effort {
        let stretch = Duration::from_millis;
        if settings.is_quick {
            Effort { rounds: 2, tries: 1, cycles: 1e5, turns: 1000, stretch: stretch(5) }
        } else {
            Effort { rounds: 15, tries: 5, cycles: 1e6, turns: 5000, stretch: stretch(10) }
        }
    }
}

/// What is told while measuring, and what is kept for the end.
struct Notes<'a> {
    notes: Vec<String>,
    day: String,
    tell: &'a (dyn Fn(&str) + Sync),
}

impl Notes<'_> {
    fn add(&mut self, note: String) {
        self.notes.push(note);
    }

    fn progress(&self, what: &str) {
        (self.tell)(what);
    }
}

/// Measures this host; `tell` hears what is being measured.
///
/// # Errors
/// When there is no core to stay on, no clock or no memory.
pub fn calibrate(
    settings: &Settings,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Calibration, CalibrateError> {
    // In a thread of its own, for the caller's to stay unbound.
    let measured = std::thread::scope(|scope| scope.spawn(|| measure(settings, tell)).join());
    measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn measure(
    settings: &Settings,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Calibration, CalibrateError> {
    let effort = Effort::of(settings);
    tell("the clock");
    let (machine, core) = Machine::pin(settings.core)?;
    let mut notes = Notes { notes: Vec::new(), day: today(), tell };
    look(&machine, &mut notes);
    let levels = levels::measure(&machine, &effort, &mut notes)?;
    let between_cores = between(&machine, core, &effort, &mut notes);
    let operations = operations::measure(&effort, &mut notes)?;
    let hardware = Hardware {
        name: settings.name.clone().unwrap_or_else(|| machine.name.clone()),
        clock_hz: machine.clock_hz.constant(&notes.day),
        cores: machine.cores.len() as u32,
        sockets: machine.sockets,
        levels,
        between_cores,
        links: Default::default(),
        operations,
        paper: Default::default(),
    };
    Ok(Calibration { hardware, model: machine.model, core, notes: notes.notes })
}

/// Notes of what the system does not tell.
fn look(machine: &Machine, notes: &mut Notes<'_>) {
    if !machine.are_caches_known {
        notes.add("the system does not tell its caches; small ones are assumed".to_owned());
    }
    for cache in machine.caches.iter().filter(|cache| cache.cores > 1) {
        notes.add(format!(
            "L{}: {} kB for {} cores; a core is taken to have {} kB of it",
            cache.level,
            cache.bytes >> 10,
            cache.cores,
            cache.share() >> 10
        ));
    }
    if machine.nodes > 1 {
        notes.add(format!("memory of {} nodes; only the core's own was measured", machine.nodes));
    }
}

fn between(
    machine: &Machine,
    core: usize,
    effort: &Effort,
    notes: &mut Notes<'_>,
) -> Option<BetweenCores> {
    let Some(other) = machine.neighbour(core) else {
        notes.add("one core only: nothing between cores was measured".to_owned());
        return None;
    };
    notes.progress(&format!("between cores {core} and {other}"));
    let measured = cores::Between::measure(other, effort.rounds, effort.turns);
    let told = |values: &[f64]| Summary::of(values).constant(&notes.day);
    Some(BetweenCores {
        line: told(&measured.line),
        wake: told(&measured.wake),
        woken: told(&measured.woken),
    })
}

/// This day, in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = i64::try_from(since.as_nanos()).unwrap_or(0);
    let text = thruway_inspect::events::rfc3339(nanoseconds);
    text.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_calibration_makes_a_description_that_can_be_read() {
        let told = std::sync::Mutex::new(Vec::new());
        let tell = |what: &str| told.lock().unwrap().push(what.to_owned());
        let settings =
            Settings { is_quick: true, name: Some("small".to_owned()), ..Settings::default() };
        let made = calibrate(&settings, &tell).unwrap();
        let read = Hardware::parse("made.toml", &made.hardware.to_toml()).unwrap();
        assert_eq!((read.name.as_str(), read.cores as usize), ("small", allowed().len()));
        assert_eq!(read, made.hardware);
        let (first, last) = (&read.levels[0], &read.levels[read.levels.len() - 1]);
        assert!(last.dependent.value > first.dependent.value, "{first:?} {last:?}");
        assert_eq!(read.between_cores.is_some(), allowed().len() > 1);
        assert!(told.into_inner().unwrap().iter().any(|line| line.starts_with("DRAM")));
    }
}
