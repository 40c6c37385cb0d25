//! One machine with its supervisor.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::shared::{OnChange, Report, Shared, VmReporter, VmSpec, Wire, lock};
use super::supervisor::Supervisor;
use crate::error::HostError;
use crate::life::State;
use crate::status::Status;

/// Stack of the supervisor's thread, bytes.
const STACK_LEN: usize = 256 << 10;

/// A machine that is supervised. Dropping it ends the machine and waits for that.
pub(super) struct Vm {
    pub shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Vm {
    /// Prepares a machine: what reports about it can be made before it starts.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn prepare() -> Result<(Vm, VmReporter), HostError> {
        let shared = Arc::new(Shared::new()?);
        let reporter = VmReporter(Arc::clone(&shared));
        Ok((Vm { shared, thread: None }, reporter))
    }

    /// Starts it, and waits until the drivers use its network cards.
    ///
    /// # Errors
    /// Why they do not. A machine that is not ready the first time is not tried again.
    pub fn start(
        &mut self,
        spec: VmSpec,
        wire: Wire,
        on_change: OnChange,
    ) -> Result<(), HostError> {
        let (reply_to, ready) = sync_channel(1);
        let shared = Arc::clone(&self.shared);
        self.spawn(Supervisor::new(spec, (wire, on_change), shared, Some(reply_to)))?;
        ready.recv().unwrap_or(Err(HostError::Stopped))
    }

    /// Starts it, and does not wait.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(
        &mut self,
        spec: VmSpec,
        wire: Wire,
        on_change: OnChange,
    ) -> Result<(), HostError> {
        let shared = Arc::clone(&self.shared);
        self.spawn(Supervisor::new(spec, (wire, on_change), shared, None))
    }

    fn spawn(&mut self, supervisor: Supervisor) -> Result<(), HostError> {
        let thread = std::thread::Builder::new()
            .name("vm-keeper".into())
            .stack_size(STACK_LEN)
            .spawn(move || supervisor.run())
            .map_err(|error| HostError::system("starting a supervisor thread", error))?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Waits until the machine is ready, or will not be.
    pub fn wait(&self) -> State {
        let mut status = lock(&self.shared.status);
        while !matches!(status.state, State::Running | State::Stopped | State::Failed) {
            status = self.shared.changed.wait(status).unwrap_or_else(PoisonError::into_inner);
        }
        status.state
    }

    /// What is known of it.
    pub fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.shared.report(Report::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there was told by the panic itself; the process died with the thread.
            let _ = thread.join();
        }
    }
}
