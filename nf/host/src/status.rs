//! What is known of a function.

use crate::life::State;
use crate::sandbox::SandboxReport;
use std::time::Duration;
use thruway_nf_abi::features::Features;

/// What is known of a function at a moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// Where it stands.
    pub state: State,
    /// Its name, as it says.
    pub name: String,
    /// Features of the function interface that are in force with it.
    pub features: Features,
    /// Its process's number, while it has one.
    pub pid: Option<i32>,
    /// Starts after the first.
    pub restarts: u64,
    /// Times that it broke the protocol, of the rings or of the control socket.
    pub faults: u64,
    /// Times that it hung.
    pub hangs: u64,
    /// CPU time of all its processes.
    pub cpu_time: Duration,
    /// How its last process ended, if one has.
    pub last_end: Option<String>,
    /// The end of what its present or last process wrote to its standard output and error.
    pub output: String,
    /// Which measures of its sandbox are in force.
    pub sandbox: Option<SandboxReport>,
}

impl Status {
    /// Of one that is being started.
    pub(crate) fn starting() -> Status {
        Status {
            state: State::Starting,
            name: String::new(),
            features: Features::NONE,
            pid: None,
            restarts: 0,
            faults: 0,
            hangs: 0,
            cpu_time: Duration::ZERO,
            last_end: None,
            output: String::new(),
            sandbox: None,
        }
    }
}
