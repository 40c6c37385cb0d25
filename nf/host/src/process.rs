//! A function's process: started, watched by its descriptor, ended with its owner.

use crate::error::HostError;
use crate::exit::Exit;
use crate::machine;
use crate::sandbox::{Groups, Launched, Order, SandboxReport, launch};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::time::{Duration, Instant};
use thruway_exchange::socket::Socket;

/// How much of a function's output is kept: its end, in bytes.
const OUTPUT_KEPT: usize = 4096;

/// Most that is read of a function's output at a time, in bytes: one that never stops writing
/// cannot hold its host up.
const OUTPUT_TAKEN: usize = 64 << 10;

/// Longest wait for the end of a killed process, and the time between two looks why it lasts.
const REAPED: Duration = Duration::from_secs(10);
const RELEASE_PAUSE: Duration = Duration::from_millis(50);

/// A function's process. Dropping it kills the process and waits for its end.
///
/// The process also dies with the thread that started it, even if that is killed.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    pidfd: OwnedFd,
    control: Socket,
    output: OwnedFd,
    kept: Vec<u8>,
    report: SandboxReport,
    exit: Option<Exit>,
    cpu_time: Duration,
    // The kernel removes the mounts of a namespace with its last user, for which the end of the
    // process would have to wait. PERF: of 100 kills half were answered 0.15 ms earlier, the worst
    // after 2.5 instead of 5.6 ms: thruway-bench kills --kills 100 --pause 240 --rate 20000
    _mounts: Option<OwnedFd>,
    // After the process was waited for: a group with a process cannot be removed.
    _groups: Groups,
}

impl Process {
    /// Starts a program in its sandbox, or a machine with it. When this returns, the program is
    /// being loaded, or the machine boots.
    ///
    /// The calling thread must live as long as the process shall.
    ///
    /// # Errors
    /// All of [`HostError`] that concern the program, the order and the sandbox.
    pub fn spawn(order: &Order) -> Result<Process, HostError> {
        let launched = match &order.machine {
            None => launch(order)?,
            Some(machine) => machine::launch(order, machine)?,
        };
        Ok(Process::of(launched))
    }

    /// A process that was just started.
    pub(crate) fn of(launched: Launched) -> Process {
        let Launched { pid, pidfd, control, output, groups, report } = launched;
        Process {
            pid,
            pidfd,
            control: control.into(),
            output,
            kept: Vec::new(),
            report,
            exit: None,
            cpu_time: Duration::ZERO,
            _mounts: mounts(pid),
            _groups: groups,
        }
    }

    /// Its number outside.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Readable when the process has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The host's end of the control socket (SOCK_SEQPACKET, not blocking).
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// The same, for messages.
    pub(crate) fn socket(&self) -> &Socket {
        &self.control
    }

    /// Readable when the process wrote something to its standard output or error.
    pub fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Which measures of its sandbox are in force.
    pub fn report(&self) -> &SandboxReport {
        &self.report
    }

    /// Takes in what the process has written; it would wait once the pipe is full.
    ///
    /// Returns whether there may be more to come.
    pub fn take_output(&mut self) -> bool {
        let mut bytes = [0; 4096];
        for _ in 0..OUTPUT_TAKEN / bytes.len() {
            match rustix::io::read(&self.output, &mut bytes) {
                Ok(0) => return false,
                Ok(count) => {
                    self.kept.extend_from_slice(&bytes[..count]);
                    let excess = self.kept.len().saturating_sub(OUTPUT_KEPT);
                    self.kept.drain(..excess);
                }
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
        true
    }

    /// The end of what it wrote and [`Process::take_output`] took: the last 4 KB, with anything
    /// but printable text replaced, since a stranger wrote it.
    pub fn output_kept(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        // Consoles end lines by two characters.
        let text = text.chars().filter(|c| *c != '\r');
        text.map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
    }

    /// The end of what it wrote until now.
    pub fn last_output(&mut self) -> String {
        self.take_output();
        self.output_kept()
    }

    /// How the process ended, if it has.
    ///
    /// # Errors
    /// [`HostError::System`].
    pub fn try_wait(&mut self) -> Result<Option<Exit>, HostError> {
        if self.exit.is_none() {
            self.reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
        }
        Ok(self.exit)
    }

    /// Waits for the process to end, for some time.
    ///
    /// # Errors
    /// [`HostError::System`].
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<Exit>, HostError> {
        if self.exit.is_none() {
            let mut ready = [PollFd::new(&self.pidfd, PollFlags::IN)];
            let time = Timespec::try_from(at_most).unwrap_or_default();
            match rustix::event::poll(&mut ready, Some(&time)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(HostError::system("waiting for a function", error)),
            }
        }
        self.try_wait()
    }

    /// Kills the process, and with it all its threads, and waits for the end.
    ///
    /// # Errors
    /// [`HostError::System`].
    pub fn kill(&mut self) -> Result<Exit, HostError> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        match rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL) {
            // It ended and waits to be waited for.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(HostError::system("killing a function", error)),
        }
        let end = Instant::now() + REAPED;
        while self.exit.is_none() && Instant::now() < end {
            if self.wait(RELEASE_PAUSE)?.is_none() {
                self.release_traced();
            }
        }
        self.exit.ok_or_else(|| HostError::system("waiting for a function", Errno::TIMEDOUT))
    }

    /// Takes leave of threads that had this process trace them (PTRACE_TRACEME, which the filter
    /// refuses): until that is done they stay, and so does their process.
    fn release_traced(&self) {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.pid)) else { return };
        let numbers = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        for number in numbers.filter(|number| *number != self.pid) {
            let Some(thread) = Pid::from_raw(number) else { continue };
            // An error of one that is nobody's to wait for.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let _ = rustix::process::waitid(WaitId::Pid(thread), options);
        }
    }

    /// CPU time that the process has used, all its threads together.
    pub fn cpu_time(&self) -> Duration {
        if self.exit.is_some() { self.cpu_time } else { cpu_time(self.pid) }
    }

    fn reap(&mut self, options: WaitIdOptions) -> Result<(), HostError> {
        // Its number and so its clock are its own until it has been waited for.
        let used = cpu_time(self.pid);
        let id = || WaitId::PidFd(self.pidfd.as_fd());
        let status = rustix::io::retry_on_intr(|| rustix::process::waitid(id(), options))
            .map_err(|error| HostError::system("waiting for a function", error))?;
        let Some(status) = status else { return Ok(()) };
        self.cpu_time = used;
        self.exit = Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Exit::Status(status),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        });
        self.take_output();
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to hear of an error; the process ends with this one at the latest.
        let _ = self.kill();
    }
}

/// The mount namespace of a process that has not been waited for; `None` where this host may not
/// have it.
fn mounts(pid: i32) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/{pid}/ns/mnt"), flags, Mode::empty()).ok()
}

/// The process's CPU clock; zero when there is no such process.
pub(crate) fn cpu_time(pid: i32) -> Duration {
    let mut clock = 0;
    // JUSTIFICATION: the clock of another process has no safe call.
    // SAFETY: writes the clock's number where it is told.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return Duration::ZERO;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time where it is told.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
