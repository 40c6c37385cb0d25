//! Processes with a time limit, that never outlive their test.

use std::fs::File;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use thruway_sync::atomic::{AtomicBool, Ordering};

pub use crate::privileges::{privileged, skip};

/// Longest time that anything here may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The program under test.
pub fn thruway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_thruway"))
}

/// `thruway click` with these arguments.
pub fn click(args: &[&str]) -> Command {
    let mut command = thruway();
    command.arg("click").args(args);
    command
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An ended process.
#[derive(Debug)]
pub struct Done {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub elapsed: Duration,
}

impl Done {
    /// The exit code; -1 for a process that a signal ended.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Asserts the exit code and that nothing panicked.
    #[track_caller]
    pub fn expect(self, code: i32) -> Done {
        assert_eq!(self.code(), code, "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }

    /// Asserts that standard error has all of these.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Done {
        for word in words {
            assert!(self.stderr.contains(word), "no '{word}' in {self:#?}");
        }
        self
    }

    /// Asserts that standard output has all of these.
    #[track_caller]
    pub fn prints(self, words: &[&str]) -> Done {
        for word in words {
            assert!(self.stdout.contains(word), "no '{word}' in {self:#?}");
        }
        self
    }
}

/// A process that runs; it ends with this value at the latest. Its output goes to files, so that
/// it never waits for a reader.
pub struct Running {
    child: Child,
    name: String,
    begin: Instant,
    dir: TempDir,
}

impl Running {
    /// Starts a command.
    #[track_caller]
    pub fn start(command: &mut Command) -> Running {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = |name| File::create(dir.path().join(name)).expect("a temporary file");
        let name = format!("{command:?}");
        let begin = Instant::now();
        let child = command.stdout(file("out")).stderr(file("err")).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name}: {error}"));
        Running { child, name, begin, dir }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far.
    pub fn stdout(&self) -> String {
        self.read("out")
    }

    /// What it said on standard error so far.
    pub fn stderr(&self) -> String {
        self.read("err")
    }

    fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.dir.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it runs");
    }

    /// Whether it ended.
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("it is a child").is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Done {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                let elapsed = self.begin.elapsed();
                return Done { status, stdout: self.stdout(), stderr: self.stderr(), elapsed };
            }
            if begin.elapsed() > limit {
                let (out, err) = (self.stdout(), self.stderr());
                panic!("{} does not end in {limit:?}\n{out}\n{err}", self.name);
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// Stops it as Ctrl-C does and waits for its end.
    #[track_caller]
    pub fn interrupt(self) -> Done {
        self.signal(Signal::INT);
        self.wait(LIMIT)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a process that ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory of a process that runs, in KiB.
#[track_caller]
pub fn resident_kib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells it");
    line.trim().split(' ').next().and_then(|kib| kib.parse().ok()).expect("a number")
}

/// Runs a command to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Done {
    Running::start(command.stdin(Stdio::null())).wait(LIMIT)
}

/// Asks `ready` until it gives something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Asserts that a tool is there.
#[track_caller]
pub fn need(tool: &str, package: &str) {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let found = path.split(':').any(|dir| Path::new(dir).join(tool).exists());
    assert!(found, "'{tool}' is missing; install the package {package} (./check does it)");
}

/// Whether long forms of tests are asked for: `THRUWAY_LONG=1`, with a build that is optimised.
pub fn at_length() -> bool {
    std::env::var("THRUWAY_LONG").is_ok_and(|value| value == "1")
}

/// Stops threads when it is dropped: also where a test fails that they serve.
pub struct Ending<'a>(pub &'a [&'a AtomicBool]);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|over| over.store(true, Ordering::SeqCst));
    }
}

/// What `each` makes of each of them, in their order: on as many threads as there are processors,
/// for work that no clock is part of.
pub fn on_all_cores<T: Sync, R: Send>(all: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let left = Mutex::new(all.iter().enumerate());
    let next = || left.lock().next();
    let work = || {
        let ones = std::iter::from_fn(next);
        ones.map(|(at, one)| (at, each(one))).collect::<Vec<(usize, R)>>()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
