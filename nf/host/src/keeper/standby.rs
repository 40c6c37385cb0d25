//! The process that waits to take the function's place.

use std::time::Duration;

use super::Keeper;
use crate::error::HostError;
use crate::life::State;
use crate::process::Process;

/// From the start of a function to that of the process that waits to take its place: the start of the
/// configuration comes first.
pub(super) const AFTER: Duration = Duration::from_millis(20);

impl Keeper {
    /// The one that waits, if it still does; else one that is started now.
    pub(super) fn next_process(&mut self) -> Result<Process, HostError> {
        if let Some(mut process) = self.standby.take()
            && matches!(process.try_wait(), Ok(None))
        {
            return Ok(process);
        }
        Process::spawn(&self.spec.order)
    }

    /// Starts the one that is to wait, once the present one has begun its work.
    pub(super) fn keep_standby(&mut self) {
        let is_due = self.standby_at.is_some_and(|at| at <= self.now());
        if is_due && self.life.state() == State::Running {
            self.standby_at = None;
            // Without one, the next process is started when it is needed, as before.
            self.standby = Process::spawn(&self.spec.order).ok();
        }
    }
}
