//! The host's side of making a process.

use super::cgroup::{Groups, Hierarchies};
use super::child::{self, Ends, Message, Planned};
use super::script::{Scene, Step, Way};
use super::{Isolation, Measure, NOBODY, Order, Outcome, SETUP_TIMEOUT, SandboxReport};
use crate::error::HostError;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use rustix::thread::CapabilitySet;
use std::fs;
use std::io;
use std::time::Instant;

/// A process that has become the program.
pub(crate) struct Launched {
    pub pid: i32,
    pub pidfd: OwnedFd,
    /// The host's end of the control socket.
    pub control: OwnedFd,
    /// What the process writes to its standard output and error.
    pub output: OwnedFd,
    pub groups: Groups,
    pub report: SandboxReport,
}

const NAMESPACES: [(Measure, i32); 6] = [
    (Measure::MountNamespace, libc::CLONE_NEWNS),
    (Measure::PidNamespace, libc::CLONE_NEWPID),
    (Measure::NetworkNamespace, libc::CLONE_NEWNET),
    (Measure::IpcNamespace, libc::CLONE_NEWIPC),
    (Measure::UtsNamespace, libc::CLONE_NEWUTS),
    (Measure::CgroupNamespace, libc::CLONE_NEWCGROUP),
];

/// The lowest number of a descriptor that must last until the program's own are in their places.
const LASTING_FIRST: i32 = 10;

/// Moves a descriptor out of the way of those that a program gets.
pub(super) fn out_of_the_way(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, LASTING_FIRST)
}

/// Starts a function. The process dies with the calling thread.
///
/// # Errors
/// What is wrong with the program or the order; with strict isolation, the first measure that
/// cannot be applied.
pub(crate) fn launch(order: &Order) -> Result<Launched, HostError> {
    let mut report = SandboxReport::new();
    let way = if is_privileged() { Way::Privileged } else { Way::Unprivileged };
    match attempt(order, way, &mut report) {
        Err(HostError::Sandbox { measure: Measure::MountNamespace, source, .. })
            if order.isolation == Isolation::Relaxed =>
        {
            let why = format!("making namespaces: {source}");
            for (measure, _) in NAMESPACES {
                report.set(measure, Outcome::Missing(why.clone()));
            }
            report.set(Measure::UserNamespace, Outcome::Missing(why));
            let why = format!("it needs the {}", Measure::MountNamespace);
            report.set(Measure::PrivateRoot, Outcome::Missing(why));
            attempt(order, Way::Without, &mut report)
        }
        done => done,
    }
}

fn attempt(order: &Order, way: Way, report: &mut SandboxReport) -> Result<Launched, HostError> {
    let mut scene = Scene::prepare(order, way, report)?;
    refuse_missing(order, report)?;
    let plan: Vec<Planned> = way.steps().into_iter().map(|step| planned(order, step)).collect();
    let (ours, theirs) = pipes()?;
    let missing = report.missing().fold(0, |bits, (measure, _)| bits | measure.bit());
    // SAFETY of the copy: see `clone3`.
    let (pid, pidfd) = match clone3(way)? {
        Cloned::Child => child::run(&plan, &mut scene, &theirs, missing),
        Cloned::Parent { pid, pidfd } => (pid, pidfd),
    };
    drop(theirs);
    note_namespaces(way, report);
    let groups = Groups::confine(&Hierarchies::of_this_process(), &order.limits, pid, report);
    let launched = Launched {
        pid,
        pidfd,
        control: ours.control,
        output: ours.output,
        groups,
        report: report.clone(),
    };
    let mut attending = Attending { order, plan: &plan, way, pid, launched };
    match attending.until_executed(&ours.report, &ours.reply) {
        Ok(()) => Ok(attending.launched),
        Err(error) => {
            end(&attending.launched);
            Err(error)
        }
    }
}

/// Kills and waits for a process that is not to be.
fn end(launched: &Launched) {
    let _ = rustix::process::pidfd_send_signal(&launched.pidfd, rustix::process::Signal::KILL);
    let options = rustix::process::WaitIdOptions::EXITED;
    let _ =
        rustix::process::waitid(rustix::process::WaitId::PidFd(launched.pidfd.as_fd()), options);
}

/// Whether this process may make namespaces without a user namespace, and map any user: not so in
/// a container whose users do not include nobody.
fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::SETPCAP
        | CapabilitySet::SETFCAP;
    let has_nobody = |map: &str| fs::read_to_string(map).is_ok_and(|text| maps_nobody(&text));
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
        && has_nobody("/proc/self/uid_map")
        && has_nobody("/proc/self/gid_map")
}

/// Whether nobody's number is in a map of users (user_namespaces(7): first, outside, count).
fn maps_nobody(map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&NOBODY.into())
    })
}

fn planned(order: &Order, step: Step) -> Planned {
    let strict = order.isolation == Isolation::Strict;
    let required = step.measure().is_none_or(|measure| strict && measure.is_required());
    Planned { step, required }
}

/// With strict isolation, what the preparation did not get is an error.
fn refuse_missing(order: &Order, report: &SandboxReport) -> Result<(), HostError> {
    let first = report.missing().find(|(measure, _)| measure.is_required());
    match first {
        Some((measure, why)) if order.isolation == Isolation::Strict => Err(HostError::Sandbox {
            measure,
            step: "preparing",
            source: io::Error::other(why.to_owned()),
        }),
        _ => Ok(()),
    }
}

fn note_namespaces(way: Way, report: &mut SandboxReport) {
    if way != Way::Without {
        for (measure, _) in NAMESPACES {
            report.set(measure, Outcome::Applied);
        }
    }
}

/// The host's ends.
struct Ours {
    control: OwnedFd,
    output: OwnedFd,
    report: OwnedFd,
    reply: OwnedFd,
}

fn pipes() -> Result<(Ours, Ends), HostError> {
    let make = || -> Result<(Ours, Ends), Errno> {
        let (control, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        // Only the host's end is asked without waiting.
        rustix::io::ioctl_fionbio(&theirs, false)?;
        // Its other end is closed: reading says "end" at once.
        let (input, _) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (output, their_output) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let (report, their_report) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (their_reply, reply) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let ends = Ends {
            input: out_of_the_way(input)?,
            output: out_of_the_way(their_output)?,
            control: out_of_the_way(theirs)?,
            report: out_of_the_way(their_report)?,
            reply: out_of_the_way(their_reply)?,
        };
        Ok((Ours { control, output, report, reply }, ends))
    };
    make().map_err(|error| HostError::system("making the pipes of a function", error))
}

enum Cloned {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Makes the process, as a copy of this one in its namespaces. All signals are blocked in it.
fn clone3(way: Way) -> Result<Cloned, HostError> {
    let namespaces = match way {
        Way::Without => 0,
        Way::Privileged => NAMESPACES.iter().fold(0, |all, (_, flag)| all | flag),
        Way::Unprivileged => {
            NAMESPACES.iter().fold(libc::CLONE_NEWUSER, |all, (_, flag)| all | flag)
        }
    };
    let mut pidfd: i32 = -1;
    // JUSTIFICATION: making a process in namespaces, with a descriptor of it and without the C
    // library's handlers, which would lock.
    // SAFETY: plain data, of which zero is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (namespaces | libc::CLONE_PIDFD).cast_unsigned().into();
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    let _blocked = Blocked::all();
    // SAFETY: without CLONE_VM the child has a copy of this memory and of this stack, and goes on
    // here; it then only runs `child::run`, which keeps to what may be done in such a copy, and
    // never returns. The arguments live over the call, which writes `pidfd`.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match pid {
        0 => Ok(Cloned::Child),
        -1 => Err(HostError::Sandbox {
            measure: Measure::MountNamespace,
            step: "making namespaces",
            source: io::Error::last_os_error(),
        }),
        pid => {
            // SAFETY: the call succeeded, so it made this descriptor, which nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Cloned::Parent { pid: pid as i32, pidfd })
        }
    }
}

/// All signals blocked in this thread, so that no handler of the host's runs in the new process.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    fn all() -> Blocked {
        // JUSTIFICATION: there is no safe call for a thread's signal mask.
        // SAFETY: plain data, of which zero is a valid value.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        let mut before = all;
        // SAFETY: writes the set it is given.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets live over the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Blocked { before }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // JUSTIFICATION: as above.
        // SAFETY: the set lives over the call; the old one is not asked for.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

/// Attending to a new process until it is the program.
struct Attending<'a> {
    order: &'a Order,
    plan: &'a [Planned],
    way: Way,
    pid: i32,
    launched: Launched,
}

impl Attending<'_> {
    fn until_executed(&mut self, report: &OwnedFd, reply: &OwnedFd) -> Result<(), HostError> {
        let deadline = Instant::now() + SETUP_TIMEOUT;
        let mut done = 0;
        while let Some([index, error]) = self.next_message(report, deadline)? {
            let Some(planned) = usize::try_from(index).ok().and_then(|at| self.plan.get(at)) else {
                return Err(self.failed("it told of a step that there is not"));
            };
            if error == 0 {
                let error = self.map_user().map_or_else(Errno::raw_os_error, |()| 0);
                // If the process is gone, the pipe's end says so.
                let _ = rustix::io::write(reply, &error.to_ne_bytes());
                continue;
            }
            self.note(*planned, error)?;
            done += 1;
            if done > self.plan.len() {
                return Err(self.failed("it told more than there are steps"));
            }
        }
        for planned in self.plan {
            if let Some(measure) = planned.step.measure() {
                let asked = measure != Measure::CpuAffinity || !self.order.limits.cpus.is_empty();
                let outcome = if asked { Outcome::Applied } else { Outcome::NotAsked };
                self.launched.report.set(measure, outcome);
            }
        }
        refuse_missing(self.order, &self.launched.report)
    }

    /// The next message, or `None` when the process is the program (or ended: its descriptor will
    /// tell).
    fn next_message(
        &self,
        report: &OwnedFd,
        deadline: Instant,
    ) -> Result<Option<Message>, HostError> {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while filled < bytes.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            let mut ready = [PollFd::new(report, PollFlags::IN)];
            match rustix::event::poll(&mut ready, Some(&left)) {
                Ok(0) => return Err(self.failed("it took too long; is the machine overloaded?")),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(HostError::system("waiting for a function", error)),
            }
            match rustix::io::read(report, &mut bytes[filled..]) {
                Ok(0) => return Ok(None),
                Ok(count) => filled += count,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(HostError::system("hearing from a function", error)),
            }
        }
        let [a, b, c, d, e, f, g, h] = bytes;
        Ok(Some([i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h])]))
    }

    /// A step that failed: an error, or a line in the report.
    fn note(&mut self, planned: Planned, error: i32) -> Result<(), HostError> {
        let source = io::Error::from_raw_os_error(error);
        let step = planned.step.what();
        match planned.step.measure() {
            Some(measure) if !planned.required => {
                let why = match planned.step.needs() {
                    Some(other) if error == libc::EOPNOTSUPP => format!("it needs the {other}"),
                    _ => format!("{step}: {source}"),
                };
                self.launched.report.set(measure, Outcome::Missing(why));
                Ok(())
            }
            Some(measure) => Err(HostError::Sandbox { measure, step, source }),
            None if planned.step == Step::Exec => {
                let path = self.order.program.path.clone();
                Err(HostError::Exec { path, hint: exec_hint(error), source })
            }
            None => Err(HostError::System { what: step, source }),
        }
    }

    /// Says which user outside a new user namespace is nobody inside (user_namespaces(7)).
    fn map_user(&self) -> Result<(), Errno> {
        let (user, group) = match self.way {
            Way::Without => return Ok(()),
            Way::Privileged => (NOBODY, NOBODY),
            // An ordinary user can give but its own.
            Way::Unprivileged => {
                (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
            }
        };
        let write = |file: &str, text: String| {
            fs::write(format!("/proc/{}/{file}", self.pid), text)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        write("setgroups", "deny".into())?;
        write("gid_map", format!("{NOBODY} {group} 1"))?;
        write("uid_map", format!("{NOBODY} {user} 1"))
    }

    fn failed(&self, why: &str) -> HostError {
        HostError::Setup { path: self.order.program.path.clone(), why: why.into() }
    }
}

fn exec_hint(error: i32) -> &'static str {
    match error {
        libc::EACCES => {
            "it runs as an unprivileged user: make the file readable and executable for everybody \
             (chmod a+rx)"
        }
        libc::ENOMEM | libc::E2BIG => "give it more MEMORY, or fewer arguments",
        _ => "it must be a program for this system",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_found_in_maps() {
        assert!(maps_nobody("         0          0 4294967295\n"));
        assert!(maps_nobody("0 100000 1000\n65534 7 1\n"));
        assert!(!maps_nobody("         0       1000          1\n"));
        assert!(!maps_nobody("0 0 65534\nx\n1 2\n"));
    }
}
