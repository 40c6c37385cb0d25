//! Machines that are alike, of which one serves and another waits, booted and standing still.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use thruway_sync::atomic::{AtomicUsize, Ordering};

use super::shared::{
    Change, Next, OnChange, Report, Shared, VmReporter, VmSpec, Wire, bell, lock, ring,
};
use super::single::Vm;
use super::turns::Turns;
use crate::error::HostError;
use crate::life::State;
use crate::status::Status;

/// What the supervisors and the owner share.
struct Roster {
    turns: Mutex<Turns>,
    machines: Mutex<Vec<Arc<Shared>>>,
    /// [`Turns::serving`], for packet threads.
    serving: AtomicUsize,
    bell: OwnedFd,
}

impl Roster {
    /// Takes in a change of a machine, and gives what that does next. Another one may continue in
    /// its place.
    fn on(&self, at: usize, change: Change) -> Next {
        let (next, other) = {
            let mut turns = lock(&self.turns);
            let (next, other) = turns.on(at, change);
            self.serving.store(turns.serving(), Ordering::Release);
            (next, other)
        };
        if let Some(other) = other {
            self.resume(other);
        }
        ring(&self.bell);
        next
    }

    fn resume(&self, at: usize) {
        lock(&self.machines)[at].report(Report::Resume);
    }
}

/// Up to two machines that are alike: one serves, and takes the other's place when that ends.
/// Dropping them ends them.
pub struct VmPool {
    roster: Arc<Roster>,
    /// By number; the place of one that is kept no more is empty.
    vms: Vec<Option<(Vm, VmReporter)>>,
}

impl VmPool {
    /// No machines yet. One of them is to serve (`is_wanted`), or all stand still for now.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(is_wanted: bool) -> Result<VmPool, HostError> {
        let roster = Roster {
            turns: Mutex::new(Turns::new(is_wanted)),
            machines: Mutex::default(),
            serving: AtomicUsize::new(0),
            bell: bell()?,
        };
        Ok(VmPool { roster: Arc::new(roster), vms: Vec::new() })
    }

    /// Number of machines.
    pub fn len(&self) -> usize {
        self.vms.iter().flatten().count()
    }

    /// Whether there are no machines.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends machines until there are so many; the one that serves comes last.
    pub fn keep(&mut self, count: usize) {
        let serving = self.serving();
        let others = (0..self.vms.len()).filter(|at| *at != serving).chain([serving]);
        for at in others {
            if self.len() > count {
                self.vms[at] = None;
            }
        }
    }

    /// Adds a machine and gives its number. `wire` gets what reports about its network cards. If it
    /// is the first and one is to serve, this waits until it is ready; else it boots meanwhile.
    ///
    /// # Errors
    /// What `wire` gives, or why the machine is not ready.
    pub fn add(
        &mut self,
        spec: VmSpec,
        wire: impl FnOnce(&VmReporter) -> Result<Wire, String>,
    ) -> Result<usize, String> {
        let text = |error: HostError| error.to_string();
        let (mut vm, reporter) = Vm::prepare().map_err(text)?;
        let wire = wire(&reporter)?;
        let waits = self.is_empty() && lock(&self.roster.turns).is_wanted();
        let at = self.add_shared(&vm);
        let roster = Arc::clone(&self.roster);
        let on_change: OnChange = Box::new(move |change| roster.on(at, change));
        let started =
            if waits { vm.start(spec, wire, on_change) } else { vm.begin(spec, wire, on_change) };
        started.map_err(text)?;
        self.vms[at] = Some((vm, reporter));
        Ok(at)
    }

    /// Has the roster know a machine; gives its number.
    fn add_shared(&mut self, vm: &Vm) -> usize {
        let mut machines = lock(&self.roster.machines);
        if let Some(at) = self.vms.iter().position(Option::is_none) {
            machines[at] = Arc::clone(&vm.shared);
            return at;
        }
        machines.push(Arc::clone(&vm.shared));
        self.vms.push(None);
        lock(&self.roster.turns).add()
    }

    /// From now on a machine is to serve. Waits until one is ready; false if none will be.
    pub fn serve(&self) -> bool {
        let next = {
            let mut turns = lock(&self.roster.turns);
            let next = turns.want();
            self.roster.serving.store(turns.serving(), Ordering::Release);
            next
        };
        match next {
            Some(at) => self.roster.resume(at),
            None => return self.machines().any(|(vm, _)| vm.wait() == State::Running),
        }
        true
    }

    /// The number of the machine that serves, or did last, in order of [`VmPool::add`].
    #[inline]
    pub fn serving(&self) -> usize {
        self.roster.serving.load(Ordering::Acquire)
    }

    /// Times that a machine took the place of one that ended.
    pub fn takeovers(&self) -> u64 {
        lock(&self.roster.turns).takeovers()
    }

    /// No change is news any more: see [`VmPool::as_fd`].
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.roster.bell, &mut [0; 8]);
    }

    /// What reports about the machine that serves.
    pub fn reporter(&self) -> Option<&VmReporter> {
        self.vms.get(self.serving())?.as_ref().map(|(_, reporter)| reporter)
    }

    /// What is known of the machine that serves.
    pub fn status(&self) -> Option<Status> {
        self.vms.get(self.serving())?.as_ref().map(|(vm, _)| vm.status())
    }

    /// What is known of the others, in order.
    pub fn others(&self) -> impl Iterator<Item = Status> {
        let serving = self.serving();
        let others = self.vms.iter().enumerate().filter(move |(at, _)| *at != serving);
        others.filter_map(|(_, place)| place.as_ref().map(|(vm, _)| vm.status()))
    }

    fn machines(&self) -> impl Iterator<Item = &(Vm, VmReporter)> {
        self.vms.iter().flatten()
    }
}

impl AsFd for VmPool {
    /// Readable when a machine changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.roster.bell.as_fd()
    }
}

impl fmt::Debug for VmPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VmPool").field("serving", &self.serving()).finish_non_exhaustive()
    }
}
