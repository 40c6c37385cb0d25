//! How much is measured, and what is reported of it.

use std::time::Duration;

use super::isolation::Programs;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The core to measure on; else the highest that the process may use.
    pub core: Option<usize>,
    /// What to call the host; else its own name.
    pub name: Option<String>,
    /// Less of everything: a few seconds, and numbers to match.
    pub is_quick: bool,
    /// What is started as isolated functions; without, what isolation costs is not measured.
    pub programs: Option<Programs>,
}

/// How much is measured.
pub(super) struct Effort {
    /// Rounds over which the median is taken.
    pub(super) rounds: usize,
    /// Measurements of which a round takes the lowest.
    pub(super) tries: usize,
    /// Cycles of one measurement.
    pub(super) cycles: f64,
    /// Turns of a line between two cores.
    pub(super) turns: u32,
    /// How long all cores read at once.
    pub(super) stretch: Duration,
    /// Packets of a run of isolated functions.
    pub(super) packets: u64,
}

impl Effort {
    pub(super) fn of(settings: &Settings) -> Effort {
        let stretch = Duration::from_millis;
        if settings.is_quick {
            Effort {
                rounds: 2,
                tries: 1,
                cycles: 1e5,
                turns: 1000,
                stretch: stretch(5),
                packets: 20_000,
            }
        } else {
            Effort {
                rounds: 15,
                tries: 5,
                cycles: 1e6,
                turns: 5000,
                stretch: stretch(10),
                packets: 200_000,
            }
        }
    }
}

/// What is reported while measuring, and what is kept for the end.
pub(super) struct Notes<'a> {
    pub(super) notes: Vec<String>,
    pub(super) day: String,
    pub(super) log: &'a (dyn Fn(&str) + Sync),
}

impl Notes<'_> {
    pub(super) fn add(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(super) fn progress(&self, what: &str) {
        (self.log)(what);
    }
}
