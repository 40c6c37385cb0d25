//! What the threads of a port share.

use std::fmt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use parking_lot::Mutex;
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::bell::Bell;
use crate::queue::Queue;
use crate::ring::RingFault;
use crate::session::{RINGS, Rings};

/// The ring that the guest receives from.
pub(crate) const TO_GUEST: usize = 0;
/// The ring that the guest sends to.
pub(crate) const FROM_GUEST: usize = 1;

/// Where a front-end is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// At a socket of this path, at which the port listens.
    Listen(PathBuf),
    /// At a socket of this path, at which the front-end listens; it is tried again and again.
    Connect(PathBuf),
    /// At sockets that are handed over ([`crate::Port::attach`]).
    Attached,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Listen(path) => write!(f, "{}, at which it listens", path.display()),
            Address::Connect(path) => write!(f, "{}, to which it connects", path.display()),
            Address::Attached => f.write_str("a machine of this process"),
        }
    }
}

/// What is known of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortStatus {
    /// A front-end is connected.
    pub is_connected: bool,
    /// The guest's driver uses both rings.
    pub is_ready: bool,
    /// Front-ends that connected.
    pub connections: u64,
    /// Connections that ended because the front-end or the guest broke the protocol.
    pub faults: u64,
    /// Why the last connection ended.
    pub last_end: String,
    /// Features that were agreed on.
    pub features: u64,
}

/// One of a device's rings, between its packet thread and the service thread.
#[derive(Debug)]
pub(crate) struct End {
    queue: Mutex<Option<Queue>>,
    /// The guest uses the ring.
    is_used: AtomicBool,
    /// The service thread wants the ring: the packet thread leaves it alone.
    is_wanted: AtomicBool,
    call_is_due: AtomicBool,
    fault: Mutex<Option<RingFault>>,
    /// Wakes the packet thread.
    pub bell: Bell,
    /// The bell was rung since it was silenced.
    was_rung: AtomicBool,
}

/// What a port's threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub name: String,
    /// Wakes the service thread.
    pub service: Bell,
    pub ends: [End; RINGS],
    pub is_closing: AtomicBool,
    pub status: Mutex<PortStatus>,
    /// Where the next front-end connects, of [`Address::Attached`].
    pub attached: Mutex<Option<UnixListener>>,
}

/// What happens to a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortEvent {
    /// The driver uses both rings.
    Ready,
    /// It does so no more.
    Down,
    /// The front-end or the guest broke the protocol, and how.
    Fault(String),
}

/// Called for what happens to a port.
pub(crate) type OnEvent = Box<dyn Fn(PortEvent) + Send>;

impl Shared {
    pub fn new(name: &str) -> rustix::io::Result<Shared> {
        Ok(Shared {
            name: name.to_owned(),
            service: Bell::new()?,
            ends: [End::new()?, End::new()?],
            is_closing: AtomicBool::new(false),
            status: Mutex::default(),
            attached: Mutex::default(),
        })
    }

    /// Does something with a ring, as a packet thread. False if the guest has none now.
    #[inline]
    pub fn with(
        &self,
        ring: usize,
        work: impl FnOnce(&mut Queue) -> Result<bool, RingFault>,
    ) -> bool {
        let end = &self.ends[ring];
        if end.was_rung.load(Ordering::Relaxed) {
            end.silence();
        }
        if end.is_wanted.load(Ordering::Relaxed) {
            return true;
        }
        // Never waits: its only other holder is the service thread, which wakes this one
        // afterwards.
        let Some(mut queue) = end.queue.try_lock() else { return true };
        let Some(used) = queue.as_mut() else { return false };
        match work(used) {
            Ok(false) => {}
            Ok(true) => {
                if !end.call_is_due.swap(true, Ordering::AcqRel) {
                    self.service.ring();
                }
            }
            Err(fault) => {
                *queue = None;
                *end.fault.lock() = Some(fault);
                self.service.ring();
            }
        }
        true
    }
}

impl End {
    fn new() -> rustix::io::Result<End> {
        Ok(End {
            queue: Mutex::default(),
            is_used: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            call_is_due: AtomicBool::new(false),
            fault: Mutex::default(),
            bell: Bell::new()?,
            was_rung: AtomicBool::new(false),
        })
    }

    /// Wakes the packet thread.
    pub fn wake(&self) {
        // In this order: one that sees the mark finds a bell to silence. One that is woken before
        // it sees the mark is woken once more.
        self.bell.ring();
        self.was_rung.store(true, Ordering::Release);
    }

    #[cold]
    fn silence(&self) {
        self.was_rung.store(false, Ordering::Relaxed);
        self.bell.silence();
    }

    /// Whether the guest is to be called, since this was last asked.
    pub fn take_call(&self) -> bool {
        self.call_is_due.swap(false, Ordering::AcqRel)
    }

    /// The guest's lie that a packet thread found.
    pub fn take_fault(&self) -> Option<RingFault> {
        self.fault.lock().take()
    }

    /// Puts another ring, or none, in the place of the present one. Waits for a packet thread's
    /// batch at most. The packet thread is woken in any case: it may have found the lock taken, and
    /// looks again.
    fn exchange(&self, next: Option<Queue>) -> Option<Queue> {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.is_used.store(next.is_some(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.queue.lock(), next);
        self.is_wanted.store(false, Ordering::Relaxed);
        self.wake();
        before
    }

    /// Whether the guest uses the ring. Does not take its lock: a packet thread that finds that
    /// taken must be woken.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }
}

/// The rings of a port, for the session of its connection.
pub(crate) struct PortRings<'a>(pub &'a Shared);

impl Rings for PortRings<'_> {
    fn start(&mut self, ring: usize, queue: Queue) {
        self.0.ends[ring].exchange(Some(queue));
    }

    fn stop(&mut self, ring: usize) -> Option<Queue> {
        self.0.ends[ring].exchange(None)
    }
}
