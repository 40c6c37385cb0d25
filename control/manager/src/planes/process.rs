//! Processes of data planes: started, found again, watched and ended by pidfd.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, geteuid, pidfd_open, pidfd_send_signal, waitid,
};

use super::record::{ChainDir, Identity};
use crate::ChainSpec;

/// Variables of the manager's environment that are the manager's own: sd_notify(3),
/// sd_listen_fds(3).
const MANAGERS_OWN: &[&str] = &[
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// A process, by a descriptor that never means another one.
#[derive(Debug)]
pub(super) struct Process {
    pidfd: OwnedFd,
    identity: Identity,
}

/// The command that runs a chain: in a session of its own, with its output at the end of `log`.
pub(super) fn command(
    program: &Path,
    dir: &ChainDir,
    spec: &ChainSpec,
    log: std::fs::File,
) -> Result<Command> {
    let mut command = Command::new(program);
    command.args(["run", "--quiet", "--own-session", "--control"]).arg(dir.socket());
    command.arg("--variables-file").arg(dir.variables());
    if let Some(threads) = spec.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    if let Some(cores) = &spec.cores {
        // In one word: a text that begins with a dash is no option.
        command.arg(format!("--cores={cores}"));
    }
    command.arg(dir.configuration()).current_dir("/");
    MANAGERS_OWN.iter().for_each(|name| {
        command.env_remove(name);
    });
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(command: &mut Command) -> Result<Process> {
        // Nobody else waits for it, so its number is its own until it is reaped here.
        let pid = command.spawn()?.id();
        Process::open(pid)
    }

    /// The process that has this number now.
    fn open(pid: u32) -> Result<Process> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| Error::other(format!("{pid} is no process id")))?;
        // The descriptor first: what is read then is of this process, if it still lives after.
        let pidfd = pidfd_open(number, PidfdFlags::empty())?;
        let identity = Identity {
            pid,
            start_ticks: start_ticks(pid)?,
            boot: boot()?,
            executable: executable(Path::new(&format!("/proc/{pid}/exe"))),
        };
        Ok(Process { pidfd, identity })
    }

    /// The process of a record, if it still runs and is the same.
    pub(super) fn of_record(identity: &Identity) -> Option<Process> {
        let process = Process::open(identity.pid).ok()?;
        (process.identity == *identity && !process.has_ended()).then_some(process)
    }

    /// The one of these that serves control socket `socket`, if it still runs.
    pub(super) fn of_socket(socket: &Path, running: &[Serving]) -> Option<Process> {
        let found = running.iter().find(|one| one.socket == socket)?;
        let process = Process::open(found.pid).ok()?;
        (!process.has_ended()).then_some(process)
    }

    /// Which one it is.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Readable as soon as it ends.
    pub(super) fn end(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether it ended.
    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    /// Sends a signal; one that ended gets none.
    pub(super) fn signal(&self, signal: Signal) {
        // It fails only for a process that ended, or that became another user's.
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }

    /// How it ended. An adopted process is not this one's child: then the system does not say.
    pub(super) fn ending(&self) -> String {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let Ok(Some(status)) = waitid(WaitId::PidFd(self.pidfd.as_fd()), options) else {
            return "it ended".to_owned();
        };
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (_, Some(signal)) => format!("signal {signal} ended it"),
            _ => "it ended".to_owned(),
        }
    }
}

/// A process that was asked to serve a control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Serving {
    /// Its number.
    pub(super) pid: u32,
    /// Its control socket.
    pub(super) socket: std::path::PathBuf,
}

/// This user's processes `... run ... --control SOCKET ...` with a socket that is wanted; none that
/// another one of them started.
pub(super) fn serving(is_wanted: impl Fn(&Path) -> bool) -> Vec<Serving> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found: Vec<Serving> = numbers
        .filter_map(|pid| {
            let dir = format!("/proc/{pid}");
            let own = std::fs::metadata(&dir).ok()?.uid() == geteuid().as_raw();
            let line = own.then(|| std::fs::read(format!("{dir}/cmdline")).ok())??;
            let socket = control_of(&line)?;
            is_wanted(&socket).then_some(Serving { pid, socket })
        })
        .collect();
    // A process that has just been forked looks as the one that did it.
    let is_child = |one: &&Serving| {
        let parent = parent(one.pid);
        found.iter().any(|other| Some(other.pid) == parent)
    };
    found.iter().filter(|one| !is_child(one)).cloned().collect()
}

/// The control socket in the arguments of a process, as the manager gives them.
fn control_of(line: &[u8]) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    words.contains(&b"run".as_slice()).then_some(())?;
    let at = words.iter().position(|word| *word == b"--control")?;
    words.get(at + 1).map(|word| std::ffi::OsStr::from_bytes(word).into())
}

/// The fields of `/proc/PID/stat` from the third on (proc(5)): what stands before may have any
/// bytes.
fn stat(pid: u32) -> Result<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (_, fields) = text.rsplit_once(')').ok_or(ErrorKind::InvalidData)?;
    Ok(fields.split_whitespace().map(str::to_owned).collect())
}

/// Field 22.
fn start_ticks(pid: u32) -> Result<u64> {
    let number = stat(pid)?.get(19).and_then(|field| field.parse().ok());
    number.ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Field 4.
fn parent(pid: u32) -> Option<u32> {
    stat(pid).ok()?.get(1)?.parse().ok()
}

fn boot() -> Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Device and inode of a file; also of one that was replaced, as by an upgrade.
fn executable(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Process {
        Process::start(Command::new("sleep").arg("1000")).expect("sleep runs")
    }

    #[test]
    fn a_process_is_found_again_and_its_end_is_seen() {
        let process = sleeper();
        let again = Process::of_record(process.identity()).expect("it runs");
        assert_eq!(again.pid(), process.pid());
        assert!(!again.has_ended());
        process.signal(Signal::KILL);
        poll(&mut [PollFd::new(&process.end(), PollFlags::IN)], None).expect("its end");
        assert!(process.has_ended());
        // A zombie is none that runs.
        assert!(Process::of_record(process.identity()).is_none());
        assert_eq!(process.ending(), "signal 9 ended it");
        assert_eq!(again.ending(), "it ended", "it was reaped once");
        assert!(Process::of_record(process.identity()).is_none());
    }

    #[test]
    fn a_number_that_another_process_has_is_not_adopted() {
        let process = sleeper();
        let real = process.identity().clone();
        let changed = [
            Identity { start_ticks: real.start_ticks - 1, ..real.clone() },
            Identity { boot: "another".to_owned(), ..real.clone() },
            Identity { executable: Some((0, 0)), ..real.clone() },
            Identity { pid: std::process::id(), ..real.clone() },
            Identity { pid: 0, ..real.clone() },
            Identity { pid: u32::MAX, ..real },
        ];
        for identity in changed {
            assert!(Process::of_record(&identity).is_none(), "{identity:?}");
        }
        process.signal(Signal::KILL);
    }

    #[test]
    fn arguments_name_the_control_socket() {
        let control = |line: &[u8]| control_of(line);
        assert_eq!(control(b"thruway\0run\0--control\0/s\0f\0"), Some("/s".into()));
        assert_eq!(control(b"thruway\0ctl\0--control\0/s\0"), None);
        assert_eq!(control(b"thruway\0run\0--control"), None);
        assert_eq!(control(b""), None);
    }
}
