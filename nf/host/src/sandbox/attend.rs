//! Attending to a new process: the host does for it what it may not do, and hears what failed.

use super::birth::{NAMESPACES, NO_NUMBER};
use super::cgroup::{Groups, Hierarchies};
use super::child::{Message, Planned};
use super::script::{NamespaceMode, Step};
use super::{Measure, NOBODY, Order, Outcome, SETUP_TIMEOUT, SandboxReport, own_user};
use crate::error::HostError;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::time::{Duration, Instant};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// Time between two looks at a process that took too long, until it can be killed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The highest there is: a function can be started again, its host has everybody's packets.
const OOM_SCORE: &str = "1000";

/// Attending to a new process until it is the program, in a thread of its own: the one that made
/// the process stands still.
pub(super) struct Attending<'a> {
    order: &'a Order,
    plan: &'a [Planned],
    mode: NamespaceMode,
    /// Number of the process's descriptor, once there is one.
    pidfd: &'a AtomicU32,
    groups: Groups,
    report: SandboxReport,
}

/// What came of it.
pub(super) struct Attended {
    pub groups: Groups,
    pub report: SandboxReport,
    pub result: Result<(), HostError>,
}

impl<'a> Attending<'a> {
    pub fn new(
        order: &'a Order,
        plan: &'a [Planned],
        mode: NamespaceMode,
        pidfd: &'a AtomicU32,
        report: SandboxReport,
    ) -> Attending<'a> {
        Attending { order, plan, mode, pidfd, groups: Groups::default(), report }
    }

    /// Hears the process until it closes the pipe: it is the program, or gone (its descriptor will
    /// tell). When this returns for another reason, the process finds its own pipe closed and ends.
    pub fn until_executed(mut self, report: OwnedFd, reply: OwnedFd) -> Attended {
        let result = self.hear(&report, &reply);
        Attended { groups: self.groups, report: self.report, result }
    }

    fn hear(&mut self, report: &OwnedFd, reply: &OwnedFd) -> Result<(), HostError> {
        let deadline = Instant::now() + SETUP_TIMEOUT;
        let mut failures = 0;
        while let Some([index, error]) = self.next_message(report, deadline)? {
            let Some(planned) = usize::try_from(index).ok().and_then(|at| self.plan.get(at)) else {
                return Err(self.failed("it reported a step that does not exist"));
            };
            if error == 0 {
                let error = self.help(planned.step).map_or_else(Errno::raw_os_error, |()| 0);
                // If the process is gone, the pipe's end says so.
                let _ = rustix::io::write(reply, &error.to_ne_bytes());
                continue;
            }
            self.note(*planned, error)?;
            failures += 1;
            if failures > self.plan.len() {
                return Err(self.failed("it reported more steps than there are"));
            }
        }
        self.note_applied();
        Ok(())
    }

    /// What was not reported to have failed is in force.
    fn note_applied(&mut self) {
        if self.mode != NamespaceMode::Without {
            for (measure, _) in NAMESPACES {
                self.report.set(measure, Outcome::Applied);
            }
        }
        let user = [Measure::UserNamespace, Measure::UnprivilegedUser];
        let missing = user.into_iter().find(|measure| self.report.is_missing(*measure));
        // Without namespaces it takes its own user without one.
        let missing = missing.filter(|what| {
            self.mode != NamespaceMode::Without || *what == Measure::UnprivilegedUser
        });
        let own = missing.map_or(Outcome::Applied, |measure| {
            Outcome::Missing(format!("it needs the {measure}"))
        });
        self.report.set(Measure::OwnUser, own);
        for measure in self.plan.iter().filter_map(|planned| planned.step.measure()) {
            let asked = measure != Measure::CpuAffinity || !self.order.limits.cpus.is_empty();
            let outcome = if asked { Outcome::Applied } else { Outcome::NotAsked };
            self.report.set(measure, outcome);
        }
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
            let left = deadline.saturating_duration_since(Instant::now()).max(LOOK_AGAIN);
            let left = Timespec::try_from(left).unwrap_or_default();
            let mut ready = [PollFd::new(report, PollFlags::IN)];
            match rustix::event::poll(&mut ready, Some(&left)) {
                Ok(0) => {
                    self.give_up()?;
                    continue;
                }
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
                self.report.set(measure, Outcome::Missing(why));
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

    /// Kills a process that takes too long: it may stand still in a system call.
    fn give_up(&self) -> Result<(), HostError> {
        let Some(pidfd) = self.pidfd() else { return Ok(()) };
        let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
        Err(self.failed("it took too long; is the machine overloaded?"))
    }

    fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        // Relaxed: the kernel wrote it before the process's first message.
        let number = self.pidfd.load(Ordering::Relaxed);
        // JUSTIFICATION: the descriptor comes as a number.
        // SAFETY: a number that is there was written by the kernel when it made the descriptor;
        // its owner keeps it until this thread has been waited for.
        (number != NO_NUMBER).then(|| unsafe { BorrowedFd::borrow_raw(number.cast_signed()) })
    }

    /// The host's part of a step.
    fn help(&mut self, step: Step) -> Result<(), Errno> {
        let pid = self.pid().ok_or(Errno::SRCH)?;
        match step {
            Step::MapUser => return self.map_user(pid),
            Step::OomScore => return write_of(pid, "oom_score_adj", OOM_SCORE),
            _ => {}
        }
        let hierarchies = Hierarchies::of_this_process();
        self.groups = Groups::confine(&hierarchies, &self.order.limits, pid, &mut self.report);
        Ok(())
    }

    /// The process's number outside, of which its descriptor knows (proc(5), "fdinfo").
    fn pid(&self) -> Option<i32> {
        let number = self.pidfd.load(Ordering::Relaxed);
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        let line = about.lines().find_map(|line| line.strip_prefix("Pid:"))?;
        line.trim().parse().ok().filter(|pid| *pid > 0)
    }

    /// Says which user outside a new user namespace is nobody inside (user_namespaces(7)).
    fn map_user(&self, pid: i32) -> Result<(), Errno> {
        let (user, group) = match self.mode {
            NamespaceMode::Without => return Ok(()),
            NamespaceMode::Privileged => {
                let own = own_user(pid).filter(|_| !self.report.is_missing(Measure::OwnUser));
                let number = own.unwrap_or(NOBODY);
                (number, number)
            }
            // An ordinary user can give but its own.
            NamespaceMode::Unprivileged => {
                (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
            }
        };
        write_of(pid, "setgroups", "deny")?;
        write_of(pid, "gid_map", &format!("{NOBODY} {group} 1"))?;
        write_of(pid, "uid_map", &format!("{NOBODY} {user} 1"))
    }

    fn failed(&self, why: &str) -> HostError {
        HostError::Setup { path: self.order.program.path.clone(), why: why.into() }
    }
}

/// Writes to a file of proc(5) of a process.
fn write_of(pid: i32, file: &str, text: &str) -> Result<(), Errno> {
    fs::write(format!("/proc/{pid}/{file}"), text)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
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
