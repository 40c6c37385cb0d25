//! The machine a bench runs on: what to say of it, and one core of it.

use std::fmt;

pub use thruway_model::calibrate::{allowed, bind, bind_to};

/// What a reader of the rows must know of the machine.
pub struct Machine {
    /// Processor model.
    pub model: String,
    /// Cores the process may use.
    pub cores: usize,
    /// The core that the bench is bound to; `None` when it could not be bound.
    pub pinned: Option<usize>,
    /// Kernel release.
    pub kernel: String,
    /// Processes that wanted to run, mean over the last minute: much above 1 means noise.
    pub load: String,
}

/// As the lines above results say it.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { model, cores, kernel, load, .. } = self;
        write!(f, "{cores} cores, {model}, Linux {kernel}, load {load}")
    }
}

impl Machine {
    /// Binds the calling thread to the highest core it may use, and looks around.
    pub fn pin() -> Machine {
        let allowed = allowed();
        let pinned = allowed.last().copied().filter(|core| bind(*core));
        Machine::look(allowed.len(), pinned)
    }

    /// Looks around, from a process that may use so many cores.
    pub fn look(cores: usize, pinned: Option<usize>) -> Machine {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            model: model.trim().to_owned(),
            cores,
            pinned,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            load: load.split(' ').next().unwrap_or("unknown").to_owned(),
        }
    }
}
