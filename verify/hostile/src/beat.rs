//! How long a thread stands still in its rounds, apart from what the scheduler and the machine do
//! to it.
//!
//! Of a round's time, the thread works: the time of its processor. It waits for a processor while
//! others run: the kernel counts that (`schedstat`). The machine below takes the processor away,
//! which nobody counts. Or it blocks: then it gives the processor up by itself, and that is counted
//! (`ru_nvcsw`). So what is left of a round in which it did so is how long it was blocked, and a
//! round in which it never did was not held up by a lock or a descriptor, however long it took.
//!
//! A lock may be held by a thread of this process that waits for a processor itself: what the
//! supervisors of functions waited meanwhile is not counted as blocked.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use thruway_sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How many of the longest times are kept.
pub const KEPT: usize = 16;

/// The longest times, longest first.
pub type Times = [Duration; KEPT];

/// Other threads of this process with monitored waits.
const OTHERS: usize = 4;
/// What the supervisors of functions are called.
const KEEPER: &str = "nf-keeper";

/// Measures one thread's rounds. The default one measures nothing.
#[derive(Debug, Default)]
pub struct Beat {
    shared: Option<Arc<Shared>>,
    /// When what is measured began.
    last: Option<Moment>,
    /// The thread's own `schedstat`, of proc(5).
    waits: Option<File>,
    /// Those of the supervisors of functions.
    others: Vec<File>,
}

/// What there was at a moment.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Instant,
    counted: Counted,
}

/// What the kernel counts of a thread.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// Time that it had waited for a processor.
    waited: Duration,
    /// Time of its processor.
    worked: Duration,
    /// Times that it had given its processor up.
    gave_up: i64,
    /// Time that supervisors had waited for a processor.
    others: [Duration; OTHERS],
}

impl Counted {
    /// For how long since `before` a supervisor waited for a processor, which may have had a lock
    /// of this process (its address space, a function's state): that is the scheduler's doing, too.
    fn others_waited(&self, before: &Counted) -> Duration {
        let pairs = self.others.iter().zip(&before.others);
        pairs.map(|(now, before)| now.saturating_sub(*before)).max().unwrap_or_default()
    }
}

/// What a watcher sees of a [`Beat`].
#[derive(Debug)]
struct Shared {
    epoch: Instant,
    /// The thread's number; 0 before its first round.
    thread: AtomicU32,
    rounds: AtomicU64,
    /// Nanoseconds after the epoch at which the present round began; 0 between rounds.
    since_ns: AtomicU64,
    longest: Mutex<Longest>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Longest {
    blocked: Times,
    worked: Times,
}

fn insert(longest: &mut Times, time: Duration) {
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
        *self.0.longest.lock()
    }

    /// Rounds begun.
    pub fn rounds(&self) -> u64 {
        self.0.rounds.load(Ordering::Relaxed)
    }

    /// The longest times in a round for which the thread was blocked.
    pub fn blocked(&self) -> Times {
        self.longest().blocked
    }

    /// The longest times in a round for which it worked.
    pub fn worked(&self) -> Times {
        self.longest().worked
    }

    /// How long the present round lasts.
    pub fn age(&self) -> Duration {
        match self.0.since_ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.0.epoch.elapsed().saturating_sub(Duration::from_nanos(since)),
        }
    }

    /// Where in the kernel the thread is, innermost first, if it may be known (root's to see).
    pub fn location(&self) -> Option<String> {
        let thread = self.0.thread.load(Ordering::Relaxed);
        let stack = std::fs::read_to_string(format!("/proc/self/task/{thread}/stack")).ok()?;
        let names = stack.lines().filter_map(|line| line.split([' ', '+']).nth(1));
        let names: Vec<&str> = names.take(8).collect();
        (!names.is_empty()).then(|| names.join(" < "))
    }
}

impl Beat {
    /// One that measures, and what it measures.
    pub fn new() -> (Beat, Pulse) {
        let shared = Arc::new(Shared {
            epoch: Instant::now(),
            thread: AtomicU32::new(0),
            rounds: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            longest: Mutex::default(),
        });
        (Beat { shared: Some(Arc::clone(&shared)), ..Beat::default() }, Pulse(shared))
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
        // The time before what is counted, and at the beginning after it: what the scheduler does
        // in between is not taken for blocking.
        let at = Instant::now();
        let now = self.counted();
        let Some(shared) = &self.shared else { return };
        shared.since_ns.store(0, Ordering::Relaxed);
        let worked = now.worked.saturating_sub(last.counted.worked);
        let waited = now.waited.saturating_sub(last.counted.waited);
        let mut longest = shared.longest.lock();
        insert(&mut longest.worked, worked);
        if now.gave_up != last.counted.gave_up {
            let others = now.others_waited(&last.counted);
            let blocked = (at - last.at).saturating_sub(worked + waited + others);
            insert(&mut longest.blocked, blocked);
        }
    }

    /// The thread goes on.
    pub fn resume(&mut self) {
        if self.shared.is_none() {
            return;
        }
        let counted = self.counted();
        let at = Instant::now();
        self.last = Some(Moment { at, counted });
        if let Some(shared) = &self.shared {
            let since = at.duration_since(shared.epoch).as_nanos().max(1);
            shared.since_ns.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    fn counted(&mut self) -> Counted {
        if let (None, Some(shared)) = (&self.waits, &self.shared) {
            self.waits = File::open("/proc/thread-self/schedstat").ok();
            self.others = keepers();
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            shared.thread.store(thread.unsigned_abs(), Ordering::Relaxed);
        }
        let worked = clock_gettime(ClockId::ThreadCPUTime);
        Counted {
            waited: self.waits.as_ref().map_or(Duration::ZERO, waited),
            worked: worked.try_into().unwrap_or_default(),
            gave_up: gave_up(),
            others: std::array::from_fn(|at| self.others.get(at).map_or(Duration::ZERO, waited)),
        }
    }
}

/// The `schedstat` of each supervisor: their threads last as long as their functions.
fn keepers() -> Vec<File> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let is_keeper = |path: &PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim_end() == KEEPER)
    };
    let keepers = tasks.map(|task| task.path()).filter(is_keeper);
    keepers.filter_map(|path| File::open(path.join("schedstat")).ok()).collect()
}

/// Times that this thread gave its processor up.
fn gave_up() -> i64 {
    // JUSTIFICATION: no safe call for what a thread used.
    // SAFETY: plain data, of which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes to the place it is given.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}

/// The second number: nanoseconds on the run queue without running; 0 where the kernel does not
/// count it.
fn waited(file: &File) -> Duration {
    let mut bytes = [0; 64];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = std::str::from_utf8(&bytes[..len]).unwrap_or("");
    let ns = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}
