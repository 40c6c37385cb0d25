//! The process behind an element, as the element sees it.

use std::sync::{Arc, Mutex};

use thruway_element::Later;
use thruway_exchange::{Arena, Doorbell, Mapped, PeerFault, WakeLine};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// One thread's end of a generation of a function.
pub(super) struct HostEnd {
    pub generation: u32,
    pub storage: Mapped,
    pub bell: Doorbell,
    /// Written by the Worker when this Master sleeps.
    pub wake: Arc<WakeLine>,
}

/// A supervised function.
pub(super) trait Function: Send + Sync {
    /// Changes when links change; 0 while no function runs. One atomic load.
    fn generation(&self) -> u32;

    /// This generation's end for a thread, once.
    fn take_end(&self, replica: u32) -> Option<HostEnd>;

    /// The scratch of its sessions, if it asked for any.
    fn arena(&self) -> Option<Arc<Arena>>;

    /// The function broke the protocol: it is ended, and started again as configured.
    fn report_fault(&self, generation: u32, fault: PeerFault);

    /// What a handler says of it.
    fn describe(&self, what: Property) -> String;

    /// Sets the threshold after which it hands packets back, of the present generation.
    fn set_worker_threshold(&self, threshold: u32);

    /// Packets begin to wait for it: whether it has a processor counts from now on. Once in HANG at
    /// most for each thread.
    fn watch(&self);

    /// The function has had a packet for too long: it is ended, and started again as configured.
    fn report_hang(&self, generation: u32);

    /// Reads (`write: false`) or writes a handler inside the function. Never waits.
    fn ask(&self, write: bool, text: &str) -> Later;

    /// Ends it for good.
    fn stop(&self);
}

/// What can be told of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    State,
    Pid,
    Interface,
    Restarts,
    Faults,
    Hangs,
    CpuTime,
    Sandbox,
    LastError,
    Console,
    Counters,
    Sleeps,
    AuxFull,
    InjectionFull,
}

/// What the replicas of an element share.
#[derive(Default)]
pub(super) struct Shared {
    replicas: AtomicU32,
    function: Mutex<Option<Arc<dyn Function>>>,
}

impl Shared {
    /// Under which it stands among the state that elements share.
    pub const KEY: &str = "function";

    /// The function, once it was started.
    pub fn function(&self) -> Option<Arc<dyn Function>> {
        self.function.lock().unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    /// A number for a replica that is being built: 0, 1 and so on.
    pub fn number(&self) -> u32 {
        self.replicas.fetch_add(1, Ordering::Relaxed)
    }

    /// The function; the first replica that asks starts it.
    pub fn start(
        &self,
        make: impl FnOnce() -> Result<Arc<dyn Function>, String>,
    ) -> Result<Arc<dyn Function>, String> {
        let mut function = self.function.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some(function) = &*function {
            return Ok(Arc::clone(function));
        }
        let made = make()?;
        *function = Some(Arc::clone(&made));
        Ok(made)
    }
}
