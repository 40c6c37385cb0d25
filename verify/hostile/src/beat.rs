//! How long a thread stands still in its rounds, apart from what the scheduler and the machine do
//! to it.
//!
//! A thread that runs loses time in three ways. It waits for a processor while others run: the
//! kernel counts that (`schedstat`). The machine below takes the processor away, which nobody
//! counts. Or it blocks in the kernel: then it gives the processor up by itself, and that is
//! counted (`ru_nvcsw`). A round in which it never did so was not held up by a lock or a
//! descriptor, however long it took.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicU64, Ordering};

/// How many of the longest rounds are kept.
pub const KEPT: usize = 16;

/// Measures one thread's rounds. The default one measures nothing.
#[derive(Debug, Default)]
pub struct Beat {
    shared: Option<Arc<Shared>>,
    /// When what is measured began.
    last: Option<Moment>,
    /// The thread's own `schedstat`, of proc(5).
    waits: Option<File>,
}

/// What there was at a moment.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Instant,
    /// Time that the thread had waited for a processor, in nanoseconds.
    waited_ns: u64,
    /// Times that it had given its processor up.
    blocked: i64,
}

/// What a watcher sees of a [`Beat`].
#[derive(Debug, Default)]
struct Shared {
    rounds: AtomicU64,
    longest: Mutex<Longest>,
}

/// The longest times, longest first.
#[derive(Debug, Default, Clone, Copy)]
struct Longest {
    running: [Duration; KEPT],
    blocked: [Duration; KEPT],
}

fn insert(longest: &mut [Duration; KEPT], time: Duration) {
    if time > longest[KEPT - 1] {
        longest[KEPT - 1] = time;
        longest.sort_unstable_by(|a, b| b.cmp(a));
    }
}

/// What a thread's [`Beat`] has measured, for other threads.
#[derive(Debug, Clone)]
pub struct Pulse(Arc<Shared>);

impl Pulse {
    fn longest(&self) -> Longest {
        *self.0.longest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rounds begun.
    pub fn rounds(&self) -> u64 {
        self.0.rounds.load(Ordering::Relaxed)
    }

    /// The longest rounds in which the thread blocked, without the time in which it could run and
    /// others did; longest first.
    pub fn blocked(&self) -> [Duration; KEPT] {
        self.longest().blocked
    }

    /// The same of all rounds: what the machine took is in them.
    pub fn running(&self) -> [Duration; KEPT] {
        self.longest().running
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
        self.pause();
        if let Some(shared) = &self.shared {
            shared.rounds.fetch_add(1, Ordering::Relaxed);
        }
        self.resume();
    }

    /// The thread is going to sleep, because it wants to.
    pub fn pause(&mut self) {
        let Some(last) = self.last.take() else { return };
        let now = self.now();
        let Some(shared) = &self.shared else { return };
        let waited = Duration::from_nanos(now.waited_ns.saturating_sub(last.waited_ns));
        let time = (now.at - last.at).saturating_sub(waited);
        let mut longest = shared.longest.lock().unwrap_or_else(PoisonError::into_inner);
        insert(&mut longest.running, time);
        if now.blocked != last.blocked {
            insert(&mut longest.blocked, time);
        }
    }

    /// The thread goes on.
    pub fn resume(&mut self) {
        if self.shared.is_some() {
            self.last = Some(self.now());
        }
    }

    fn now(&mut self) -> Moment {
        if self.waits.is_none() {
            self.waits = File::open("/proc/thread-self/schedstat").ok();
        }
        let waited_ns = self.waits.as_ref().map_or(0, waited_ns);
        Moment { at: Instant::now(), waited_ns, blocked: blocked() }
    }
}

/// Times that this thread gave its processor up.
fn blocked() -> i64 {
    // JUSTIFICATION: no safe call for what a thread used.
    // SAFETY: plain data, of which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes to the place it is given.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}

/// The second number: time on the run queue without running, in nanoseconds; 0 where the kernel
/// does not count it.
fn waited_ns(file: &File) -> u64 {
    let mut bytes = [0; 64];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = std::str::from_utf8(&bytes[..len]).unwrap_or("");
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}
