//! The machine a bench runs on: what to say of it, and one core of it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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

impl Machine {
    /// Binds the calling thread to the highest core it may use, and looks around.
    pub fn pin() -> Machine {
        let allowed = sched_getaffinity(None).map_or_else(|_| Vec::new(), |set| cores(&set));
        let pinned = allowed.last().copied().filter(|core| {
            let mut set = CpuSet::new();
            set.set(*core);
            sched_setaffinity(None, &set).is_ok()
        });
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            model: model.trim().to_owned(),
            cores: allowed.len(),
            pinned,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            load: load.split(' ').next().unwrap_or("unknown").to_owned(),
        }
    }
}

fn cores(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}
