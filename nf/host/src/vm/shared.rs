//! What a supervisor shares with the owner of its machine, and what they say to each other.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::HostError;
use crate::life::{Backoff, Patience};
use crate::machine::StandardOrder;
use crate::status::Status;

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
pub(super) enum Report {
    Ready,
    Fault(String),
    Hang,
    /// The machine, which stands still, shall go on.
    Resume,
    Stop,
}

/// What a supervisor reports about its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The drivers use all network cards.
    Up,
    /// The machine does not work any more.
    Down,
}

/// What a machine that is ready does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    StandStill,
}

/// Called with each change of a machine, in its supervisor's thread; gives what the machine does
/// next.
pub(super) type OnChange = Box<dyn Fn(Change) -> Next + Send>;

pub(super) struct Shared {
    pub reports: Mutex<VecDeque<Report>>,
    pub status: Mutex<Status>,
    pub changed: Condvar,
    pub bell: OwnedFd,
}

/// Reports more than this wait for nobody.
const REPORTS_MAX: usize = 64;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor that ends the sleep of a thread.
pub(super) fn bell() -> Result<OwnedFd, HostError> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|error| HostError::system("making an eventfd", error))
}

/// Ends the sleep. An error is that of a bell that was rung often enough.
pub(super) fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

impl Shared {
    pub fn new() -> Result<Shared, HostError> {
        Ok(Shared {
            reports: Mutex::default(),
            status: Mutex::new(Status::starting()),
            changed: Condvar::new(),
            bell: bell()?,
        })
    }

    pub fn report(&self, report: Report) {
        let mut reports = lock(&self.reports);
        if reports.len() < REPORTS_MAX || matches!(report, Report::Stop | Report::Resume) {
            reports.push_back(report);
        }
        drop(reports);
        ring(&self.bell);
    }

    pub fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
        self.changed.notify_all();
    }
}

/// Reports about a machine's network cards, from any thread.
#[derive(Clone)]
pub struct VmReporter(pub(super) Arc<Shared>);

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
