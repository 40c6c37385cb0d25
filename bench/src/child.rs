//! Processes that end with the bench, and the processor time that they used.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::schedstat::Schedstat;

/// A process that runs; it ends with this value at the latest. Its output goes to a file.
pub struct Running {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Running {
    /// Starts a command (its program and arguments); `dir` gets its output as `NAME.log`.
    pub fn start(command: &mut Command, name: &str, dir: &Path) -> anyhow::Result<Running> {
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log)?;
        // It ends with the thread that starts it, also where that is killed.
        let mut bound = Command::new("setpriv");
        bound.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
        bound.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = bound.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Running { child, name: name.to_owned(), log })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it until [`Running::go_on`].
    pub fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Ends [`Running::stop`].
    pub fn go_on(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills it, and does not wait until it is gone: the kernel takes its time to take it apart.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        // Its number is its own until it is waited for.
        let pid = Pid::from_raw(self.pid().cast_signed()).context("a number of a process")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Whether it has said this.
    pub fn has_printed(&self, what: &str) -> bool {
        std::fs::read_to_string(&self.log).is_ok_and(|log| log.contains(what))
    }

    /// Fails, with its last words, if it ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            bail!("{} ended ({status}): {}", self.name, log.trim());
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a process that ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that is built with this one and lies beside it.
///
/// # Errors
/// It is not there, with what builds it.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let program = own.with_file_name(name);
    if !program.exists() {
        bail!("{}: not there; build it: cargo build -p thruway-bench", program.display());
    }
    Ok(program)
}

/// Nanoseconds that the threads of a process ran (the first number of `schedstat`).
pub fn cpu_ns(pid: u32) -> u64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let all = threads.flatten().filter_map(|thread| Schedstat::of(&thread.path()));
    all.map(|thread| thread.ran_ns).sum()
}

/// Nanoseconds of processor time of all children of this process that ended and were waited for.
/// The kernel counts it in hundredths of a second.
pub fn ended_children_ns() -> u64 {
    const TICK_NS: u64 = 10_000_000;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name in parentheses, fields from the third on: cutime is 16, cstime 17.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * TICK_NS
}

/// The kernel's own thread for network work that nobody else does on this core.
pub fn softirq_thread(core: usize) -> Option<u32> {
    let wanted = format!("ksoftirqd/{core}\n");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let is_wanted = |entry: &std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name == wanted)
    };
    let mut numbers = processes.filter(is_wanted);
    numbers.find_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Asks `ready` until it holds, for ten seconds.
pub fn wait_for(what: &str, mut ready: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !ready()? {
        if begin.elapsed() > Duration::from_secs(10) {
            bail!("waited in vain for {what}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether there is such a program.
pub fn has(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').any(|dir| Path::new(dir).join(tool).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let before = ended_children_ns();
        let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 60";
        let running = Running::start(Command::new("sh").args(["-c", spin]), "sh", dir.path());
        let mut running = running.expect("there is a shell");
        wait_for("some work", || Ok(cpu_ns(running.pid()) > 50_000_000)).expect("it works");
        running.check().expect("it sleeps");
        drop(running);
        assert!(ended_children_ns() >= before + 40_000_000);
        let gone = Running::start(Command::new("sh").args(["-c", "echo no"]), "sh", dir.path());
        let mut gone = gone.expect("there is a shell");
        let ended = wait_for("its end", || Ok(gone.check().is_err()));
        ended.expect("it ends");
        assert!(gone.check().expect_err("it ended").to_string().ends_with(": no"));
    }
}
