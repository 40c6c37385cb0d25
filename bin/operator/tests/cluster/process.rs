//! Processes that end with their test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longest time that anything here may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A process; it is killed with this value.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command, whose output goes to a file of this name.
    #[track_caller]
    pub fn start(command: &mut Command, dir: &Path, name: &str) -> Process {
        let log = dir.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).expect("a file");
        let copy = file.try_clone().expect("a descriptor");
        let child = command.stdout(copy).stderr(file).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Process { child, log }
    }

    /// What it wrote.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), signal).expect("it runs");
    }

    /// Ends it by SIGTERM, and waits.
    #[track_caller]
    pub fn end(mut self) {
        self.signal(Signal::TERM);
        let begin = Instant::now();
        while !self.has_ended() {
            assert!(begin.elapsed() < LIMIT, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(12).collect();
            eprintln!("--- the end of {}:", self.log.display());
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Kills processes by their numbers; they may have ended.
pub fn kill_all(pids: impl IntoIterator<Item = i32>) {
    for pid in pids.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Looks until there is something; it must be there in time.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(LIMIT, what, look)
}

/// The same, within a time.
#[track_caller]
pub fn wait_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
