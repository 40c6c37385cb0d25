//! Calibration: what this host is, measured.
//!
//! All of it is interleaved and repeated: of measurements that are close together the shortest
//! counts, since whatever disturbs them makes them longer, and of these the median. Rounds that
//! something else disturbed are refused and measured again (`steady`). Operations are
//! differences between configurations that the real engine runs; see `carriers`.

mod carriers;
mod cores;
mod effort;
mod error;
mod isolation;
mod levels;
mod machine;
mod memory;
mod operations;
pub(crate) mod statistics;
mod steady;
mod traffic;
mod workload;

use std::time::SystemTime;

pub use effort::Settings;
pub use error::CalibrateError;
pub use isolation::Programs;
pub use machine::{allowed, bind, bind_to};
pub use statistics::{Summary, quantile};

use crate::Hardware;
use crate::hardware::BetweenCores;
use effort::{Effort, Notes};
use machine::Machine;

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

/// Measures this host; `log` hears what is being measured.
///
/// # Errors
/// When there is no core to stay on, no clock or no memory.
pub fn calibrate(
    settings: &Settings,
    log: &(dyn Fn(&str) + Sync),
) -> Result<Calibration, CalibrateError> {
    // In a thread of its own, for the caller's to stay unbound.
    let measured = std::thread::scope(|scope| scope.spawn(|| measure(settings, log)).join());
    measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn measure(
    settings: &Settings,
    log: &(dyn Fn(&str) + Sync),
) -> Result<Calibration, CalibrateError> {
    let effort = Effort::of(settings);
    log("the clock");
    let (machine, core) = Machine::pin(settings.core)?;
    let mut notes = Notes { notes: Vec::new(), day: today(), log };
    note_machine(&machine, &mut notes);
    let levels = levels::measure(&machine, &effort, &mut notes)?;
    let between_cores = between(&machine, core, &effort, &mut notes);
    let mut operations = operations::measure(&effort, &mut notes)?;
    let cores = isolation::Cores {
        own: core,
        other: machine.neighbour(core),
        clock_hz: machine.clock_hz.value,
    };
    let isolation = match &settings.programs {
        Some(programs) => isolation::measure((programs, cores), &operations, &effort, &mut notes),
        None => isolation::Measured::default(),
    };
    operations.extend(isolation.apart);
    let hardware = Hardware {
        name: settings.name.clone().unwrap_or_else(|| machine.name.clone()),
        clock_hz: machine.clock_hz.constant(&notes.day),
        cores: machine.cores.len() as u32,
        sockets: machine.sockets,
        levels,
        between_cores,
        links: Default::default(),
        operations,
        shared_core: isolation.shared,
        paper: Default::default(),
        observed: Default::default(),
    };
    Ok(Calibration { hardware, model: machine.model, core, notes: notes.notes })
}

/// Notes what the system does not report of the machine.
fn note_machine(machine: &Machine, notes: &mut Notes<'_>) {
    if !machine.are_caches_known {
        notes.add("the system does not report its caches; small ones are assumed".to_owned());
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
    let constant = |values: &[f64]| Summary::of(values).constant(&notes.day);
    Some(BetweenCores {
        line: constant(&measured.line),
        wake: constant(&measured.wake),
        woken: constant(&measured.woken),
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
        let constant = std::sync::Mutex::new(Vec::new());
        let log = |what: &str| constant.lock().unwrap().push(what.to_owned());
        let settings =
            Settings { is_quick: true, name: Some("small".to_owned()), ..Settings::default() };
        let made = calibrate(&settings, &log).unwrap();
        let read = Hardware::parse("made.toml", &made.hardware.to_toml()).unwrap();
        assert_eq!((read.name.as_str(), read.cores as usize), ("small", allowed().len()));
        assert_eq!(read, made.hardware);
        let (first, last) = (&read.levels[0], &read.levels[read.levels.len() - 1]);
        assert!(last.dependent.value > first.dependent.value, "{first:?} {last:?}");
        assert_eq!(read.between_cores.is_some(), allowed().len() > 1);
        assert!(constant.into_inner().unwrap().iter().any(|line| line.starts_with("DRAM")));
    }
}
