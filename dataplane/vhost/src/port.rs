//! A network device that a front-end may connect to, and what packet threads hold of it.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_packet::Batch;
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::bell::Bell;
use crate::queue::{Queue, Received, Sent};
use crate::ring::RingFault;
use crate::service::{self, Source};
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
    /// At sockets that are handed over ([`Port::attach`]).
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
    /// The service thread wants the ring: the packet thread leaves it alone.
    is_wanted: AtomicBool,
    call_is_due: AtomicBool,
    fault: Mutex<Option<RingFault>>,
    /// Wakes the packet thread.
    bell: Bell,
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

/// See the module's description. It ends when it is dropped.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    address: Address,
}

impl Port {
    /// Begins to listen, or to connect.
    ///
    /// # Errors
    /// Where a socket cannot be, and why.
    pub fn open(name: &str, address: Address) -> Result<Port, String> {
        Port::open_with(name, address, Box::new(|_| ()))
    }

    /// The same; `on_event` is called by the port's own thread. It must not wait.
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn open_with(
        name: &str,
        address: Address,
        on_event: Box<dyn Fn(PortEvent) + Send>,
    ) -> Result<Port, String> {
        let source = Source::open(&address)?;
        let shared = Shared::new(name).map_err(|errno| format!("no descriptor left: {errno}"))?;
        let shared = Arc::new(shared);
        service::spawn(Arc::clone(&shared), source, on_event)?;
        Ok(Port { shared, address })
    }

    /// Hands over a socket at which one front-end will connect, of [`Address::Attached`]. It takes the
    /// place of one that waits.
    pub fn attach(&self, listener: UnixListener) {
        *lock(&self.shared.attached) = Some(listener);
        self.shared.service.ring();
    }

    /// What is known of it.
    pub fn status(&self) -> PortStatus {
        lock(&self.shared.status).clone()
    }

    /// Where its front-end is met.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What receives of the guest. One at a time is of use.
    pub fn receiver(&self) -> Receiver {
        Receiver { shared: Arc::clone(&self.shared) }
    }

    /// What sends to the guest. One at a time is of use.
    pub fn sender(&self) -> Sender {
        Sender { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Address::Listen(path) = &self.address {
            // Another program may have taken the name away.
            let _ = std::fs::remove_file(path);
        }
        // Its thread is not waited for: a front-end's descriptor may hold it.
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.service.ring();
    }
}

/// Takes packets that a guest sent.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
}

/// Gives packets to a guest.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
}

impl AsFd for Receiver {
    /// Readable when there may be packets.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.ends[FROM_GUEST].bell.as_fd()
    }
}

impl AsFd for Sender {
    /// Readable when there may be room again.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.ends[TO_GUEST].bell.as_fd()
    }
}

impl Receiver {
    /// Takes up to `max` packets. If there are none, the guest is to wake whoever waits for this.
    #[inline]
    pub fn receive(&mut self, max: usize, now: i64, batch: &mut Batch) -> Received {
        let mut received = Received::default();
        self.shared.with(FROM_GUEST, |queue| {
            let mut wants_call = queue.receive((max, now), batch, &mut received)?;
            let is_idle = received == Received::default();
            if is_idle == queue.is_polled() {
                queue.poll(!is_idle)?;
            }
            if is_idle {
                wants_call = queue.receive((max, now), batch, &mut received)?;
            }
            Ok(wants_call)
        });
        received
    }
}

impl Sender {
    /// Gives packets from the front of the batch, as far as there is room. If packets are left, the
    /// guest is to wake whoever waits for room.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> Sent {
        let mut sent = Sent::default();
        let is_up = self.shared.with(TO_GUEST, |queue| {
            let mut wants_call = queue.send(batch, &mut sent)?;
            let is_full = !batch.is_empty();
            if is_full == queue.is_polled() {
                queue.poll(!is_full)?;
            }
            if is_full {
                wants_call |= queue.send(batch, &mut sent)?;
            }
            Ok(wants_call)
        });
        sent.is_down = !is_up;
        sent
    }
}

impl Shared {
    fn new(name: &str) -> rustix::io::Result<Shared> {
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
    fn with(&self, ring: usize, work: impl FnOnce(&mut Queue) -> Result<bool, RingFault>) -> bool {
        let end = &self.ends[ring];
        if end.was_rung.load(Ordering::Relaxed) {
            end.silence();
        }
        if end.is_wanted.load(Ordering::Relaxed) {
            return true;
        }
        // Never waits: whoever else has it is the service thread, which wakes this one afterwards.
        let Ok(mut queue) = end.queue.try_lock() else { return true };
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
                *lock(&end.fault) = Some(fault);
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
        lock(&self.fault).take()
    }

    /// Puts another ring, or none, in the place of the present one. Waits for a packet thread's
    /// batch at most.
    fn exchange(&self, next: Option<Queue>) -> Option<Queue> {
        self.is_wanted.store(true, Ordering::Relaxed);
        let before = std::mem::replace(&mut *lock(&self.queue), next);
        self.is_wanted.store(false, Ordering::Relaxed);
        self.wake();
        before
    }

    /// Whether the guest uses the ring.
    pub fn is_used(&self) -> bool {
        lock(&self.queue).is_some()
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

/// A lock whose holder may have panicked: what is behind it is whole at any moment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
