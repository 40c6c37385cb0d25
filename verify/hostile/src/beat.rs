//! The longest time between two rounds of a thread, without what the scheduler took.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicU64, Ordering};

/// Measures one thread's rounds. The default one measures nothing.
#[derive(Debug, Default)]
pub struct Beat {
    shared: Option<Arc<Shared>>,
    /// When the last round began, and how long the thread had waited for a processor until then.
    last: Option<(Instant, u64)>,
    /// The thread's own `schedstat`, of proc(5).
    waits: Option<File>,
}

/// What a watcher sees of a [`Beat`].
#[derive(Debug, Default)]
struct Shared {
    rounds: AtomicU64,
    longest_ns: AtomicU64,
}

/// What a thread's [`Beat`] has measured, for other threads.
#[derive(Debug, Clone)]
pub struct Pulse(Arc<Shared>);

impl Pulse {
    /// Rounds begun.
    pub fn rounds(&self) -> u64 {
        self.0.rounds.load(Ordering::Relaxed)
    }

    /// The longest round, without the time in which the thread could run and others did.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.0.longest_ns.load(Ordering::Relaxed))
    }
}

impl Beat {
    /// One that measures, and what it measures.
    pub fn new() -> (Beat, Pulse) {
        let shared = Arc::new(Shared::default());
        let beat = Beat { shared: Some(Arc::clone(&shared)), last: None, waits: None };
        (beat, Pulse(shared))
    }

    /// A round begins. The first call must be in the thread that is measured.
    pub fn mark(&mut self) {
        let Some(shared) = &self.shared else { return };
        if self.waits.is_none() {
            self.waits = File::open("/proc/thread-self/schedstat").ok();
        }
        let waited = self.waits.as_ref().map_or(0, waited_ns);
        let now = Instant::now();
        if let Some((last, waited_before)) = self.last.replace((now, waited)) {
            let wall = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
            let own = wall.saturating_sub(waited.saturating_sub(waited_before));
            shared.longest_ns.fetch_max(own, Ordering::Relaxed);
        }
        shared.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// The second number: time on the run queue without running, in nanoseconds; 0 where the kernel
/// does not count it.
fn waited_ns(file: &File) -> u64 {
    let mut bytes = [0; 64];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = std::str::from_utf8(&bytes[..len]).unwrap_or("");
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}
