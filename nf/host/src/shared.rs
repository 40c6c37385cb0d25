//! What the supervisor thread and the users of a function share.

use crate::call::Reply;
use crate::error::HostError;
use crate::life::State;
use crate::process::cpu_time;
use crate::status::Status;
use crate::wiring::HostLink;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thruway_exchange::{Arena, Control, PeerFault};
use thruway_nf_abi::message::Kind;
use thruway_sync::atomic::{AtomicU32, Ordering};

/// Commands that may wait for the supervisor; more are refused.
const COMMANDS_MAX: usize = 256;

/// What users of a function ask of its supervisor.
#[derive(Debug)]
pub(crate) enum Command {
    Fault(u32, PeerFault),
    /// Packets begin to wait for it.
    Watch,
    Hang(u32),
    Call {
        kind: Kind,
        text: String,
        reply: Reply,
    },
    Drain,
    Stop,
}

/// What the supervisor thread and the users of a function share.
#[derive(Debug)]
pub(crate) struct Shared {
    generation: AtomicU32,
    published: Mutex<Published>,
    status: Mutex<Status>,
    changed: Condvar,
    commands: Mutex<VecDeque<Command>>,
    /// Wakes the supervisor thread.
    pub bell: OwnedFd,
}

/// What the present generation has for Masters and handlers.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub links: Vec<Option<HostLink>>,
    /// One for each Worker.
    pub controls: Vec<Control>,
    pub arena: Option<Arc<Arena>>,
}

/// A lock whose holder panicked holds whole values all the same: each change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Of a function that is being started.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new() -> Result<Shared, HostError> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags)
            .map_err(|error| HostError::system("making an eventfd", error))?;
        Ok(Shared {
            generation: AtomicU32::new(0),
            published: Mutex::default(),
            status: Mutex::new(Status::starting()),
            changed: Condvar::new(),
            commands: Mutex::default(),
            bell,
        })
    }

    /// The present generation; 0 while no function runs.
    #[inline]
    pub fn generation(&self) -> u32 {
        // Acquire pairs with `publish`.
        self.generation.load(Ordering::Acquire)
    }

    /// The present generation's link of a Master thread, once.
    pub fn take_link(&self, thread: usize) -> Option<HostLink> {
        lock(&self.published).links.get_mut(thread)?.take()
    }

    /// The control regions of the present generation.
    pub fn controls(&self) -> Vec<Control> {
        lock(&self.published).controls.clone()
    }

    /// The scratch of sessions, if there is any.
    pub fn arena(&self) -> Option<Arc<Arena>> {
        lock(&self.published).arena.clone()
    }

    /// What is known of the function.
    pub fn status(&self) -> Status {
        let status = lock(&self.status);
        let mut copy = status.clone();
        // The lock is held: the supervisor takes the number away before it is anyone else's.
        copy.cpu_time += status.pid.map_or(Duration::ZERO, cpu_time);
        copy
    }

    /// Waits until the state is one of these, for some time; gives the state.
    pub fn wait_for(&self, wanted: impl Fn(State) -> bool, at_most: Duration) -> State {
        let end = Instant::now() + at_most;
        let mut status = lock(&self.status);
        while !wanted(status.state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(status, left);
            status = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        status.state
    }

    /// Gives the Masters a generation's links.
    pub fn publish(&self, generation: u32, published: Published) {
        let mut present = lock(&self.published);
        *present = published;
        // Under the lock: a Master that took a link sees its number, and none before it. Release:
        // whoever sees the number finds the links.
        self.generation.store(generation, Ordering::Release);
    }

    /// Takes them back; what Masters took already stays mapped until they let go of it.
    pub fn withdraw(&self) {
        let mut published = lock(&self.published);
        self.generation.store(0, Ordering::Release);
        // The arena outlives the generation.
        *published = Published { arena: published.arena.take(), ..Published::default() };
    }

    pub fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
        self.changed.notify_all();
    }

    pub fn take_command(&self) -> Option<Command> {
        lock(&self.commands).pop_front()
    }

    /// Leaves a command for the supervisor; gives it back when too many wait.
    pub fn command(&self, command: Command) -> Result<(), Command> {
        let mut commands = lock(&self.commands);
        // To stop is always possible.
        if commands.len() >= COMMANDS_MAX && !matches!(command, Command::Stop) {
            return Err(command);
        }
        commands.push_back(command);
        self.ring();
        Ok(())
    }

    /// Wakes the supervisor.
    pub fn ring(&self) {
        // An eventfd that is full is readable, which is all that is wanted.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}
