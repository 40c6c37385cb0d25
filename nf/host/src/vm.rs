//! A machine that knows nothing of Thruway, supervised as a function is: started, ready when its
//! drivers use all network cards, ended when it lies or hangs, started again when it ends.
//!
//! Its [`Life`](crate::life::Life) is a function's. What a function says over its control socket,
//! the machine's network cards show: their owner reports it ([`VmReporter`]). One [`Vm`] or two
//! alike are a [`VmPool`], of which one machine serves and another stands still.

mod pool;
mod supervisor;
mod turns;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use self::supervisor::Supervisor;
use crate::error::HostError;
use crate::life::{Backoff, Patience, State};
use crate::machine::StandardOrder;
use crate::status::Status;

pub use self::pool::VmPool;

/// Stack of the supervisor's thread, bytes.
const STACK_LEN: usize = 256 << 10;

/// What a machine is to be.
#[derive(Debug, Clone)]
pub struct VmSpec {
    /// Image, limits, network cards.
    pub order: StandardOrder,
    /// How patient the host is.
    pub patience: Patience,
    /// What happens between its failures.
    pub backoff: Backoff,
}

/// Makes new sockets for all network cards, listens at them, and gives descriptors by whose names
/// (`/proc/self/fd`) QEMU connects.
pub type Wire = Box<dyn FnMut() -> io::Result<Vec<OwnedFd>> + Send>;

/// What the owner of the network cards reports, and what else the supervisor is asked to do.
#[derive(Debug)]
enum Report {
    Ready,
    Fault(String),
    Hang,
    /// The machine, which stands still, shall go on.
    Resume,
    Stop,
}

/// What a supervisor says of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The drivers use all network cards.
    Up,
    /// The machine works no more.
    Down,
}

/// What a machine that is ready does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    StandStill,
}

/// Hears of a machine's changes, in its supervisor's thread.
type OnChange = Box<dyn Fn(Change) -> Next + Send>;

struct Shared {
    reports: Mutex<VecDeque<Report>>,
    status: Mutex<Status>,
    changed: Condvar,
    bell: OwnedFd,
}

/// Reports more than this wait for nobody.
const REPORTS_MAX: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor that ends the sleep of a thread.
fn bell() -> Result<OwnedFd, HostError> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|error| HostError::system("making an eventfd", error))
}

/// Ends the sleep. An error is that of a bell that was rung often enough.
fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

impl Shared {
    fn report(&self, report: Report) {
        let mut reports = lock(&self.reports);
        if reports.len() < REPORTS_MAX || matches!(report, Report::Stop | Report::Resume) {
            reports.push_back(report);
        }
        drop(reports);
        ring(&self.bell);
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
        self.changed.notify_all();
    }
}

/// Reports about a machine's network cards, from any thread.
#[derive(Clone)]
pub struct VmReporter(Arc<Shared>);

impl VmReporter {
    /// The drivers use all network cards.
    pub fn ready(&self) {
        self.0.report(Report::Ready);
    }

    /// The machine broke the protocol of a network card: it is ended and started again.
    pub fn fault(&self, why: String) {
        self.0.report(Report::Fault(why));
    }

    /// The machine has taken nothing for longer than [`Patience::hang`], while packets waited.
    pub fn hang(&self) {
        self.0.report(Report::Hang);
    }
}

impl fmt::Debug for VmReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VmReporter").finish_non_exhaustive()
    }
}

/// A machine that is supervised. Dropping it ends the machine and waits for that.
struct Vm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Vm {
    /// Prepares a machine: what reports about it can be made before it starts.
    ///
    /// # Errors
    /// No descriptor is left.
    fn prepare() -> Result<(Vm, VmReporter), HostError> {
        let shared = Arc::new(Shared {
            reports: Mutex::default(),
            status: Mutex::new(Status::starting()),
            changed: Condvar::new(),
            bell: bell()?,
        });
        let reporter = VmReporter(Arc::clone(&shared));
        Ok((Vm { shared, thread: None }, reporter))
    }

    /// Starts it, and waits until the drivers use its network cards.
    ///
    /// # Errors
    /// Why they do not. A machine that is not ready the first time is not tried again.
    fn start(&mut self, spec: VmSpec, wire: Wire, on_change: OnChange) -> Result<(), HostError> {
        let (reply_to, ready) = sync_channel(1);
        let shared = Arc::clone(&self.shared);
        self.spawn(Supervisor::new(spec, (wire, on_change), shared, Some(reply_to)))?;
        ready.recv().unwrap_or(Err(HostError::Stopped))
    }

    /// Starts it, and does not wait.
    ///
    /// # Errors
    /// No thread can be started.
    fn begin(&mut self, spec: VmSpec, wire: Wire, on_change: OnChange) -> Result<(), HostError> {
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
    fn wait(&self) -> State {
        let mut status = lock(&self.shared.status);
        while !matches!(status.state, State::Running | State::Stopped | State::Failed) {
            status = self.shared.changed.wait(status).unwrap_or_else(PoisonError::into_inner);
        }
        status.state
    }

    /// What is known of it.
    fn status(&self) -> Status {
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
