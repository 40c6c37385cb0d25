//! The host's side of making a process.

use super::attend::{Attended, Attending};
use super::birth::{self, NAMESPACES, NO_NUMBER};
use super::cgroup::Groups;
use super::child::{Body, Ends, Planned};
use super::lasting::moved_up;
use super::script::{NamespaceMode, Scene, Step};
use super::{Isolation, Measure, NOBODY, Order, Outcome, SandboxReport, USERS, USERS_FIRST};
use crate::error::HostError;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::fs;
use std::io;
use thruway_sync::atomic::AtomicU32;

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

/// Starts a function. The process dies with the calling thread.
///
/// # Errors
/// What is wrong with the program or the order; with strict isolation, the first measure that
/// cannot be applied.
pub(crate) fn launch(order: &Order) -> Result<Launched, HostError> {
    let mut report = SandboxReport::new();
    for measure in &order.omit {
        if measure.is_namespace() {
            let why = format!("the {measure} cannot be left out");
            return Err(HostError::Argument { what: "OMIT", why });
        }
        report.set(*measure, Outcome::Missing("left out by the order".into()));
    }
    let mode =
        if is_privileged() { NamespaceMode::Privileged } else { NamespaceMode::Unprivileged };
    match attempt(order, mode, &mut report) {
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
            attempt(order, NamespaceMode::Without, &mut report)
        }
        done => done,
    }
}

fn attempt(
    order: &Order,
    mode: NamespaceMode,
    report: &mut SandboxReport,
) -> Result<Launched, HostError> {
    if let Some(why) = no_own_user(mode) {
        report.set(Measure::OwnUser, Outcome::Missing(why.into()));
    }
    let mut scene = Scene::prepare(order, mode, report)?;
    refuse_missing(order, report)?;
    let plan: Vec<Planned> = mode.steps().into_iter().map(|step| planned(order, step)).collect();
    let (ours, theirs) = pipes()?;
    let missing = report.missing().fold(0, |bits, (measure, _)| bits | measure.bit());
    let number = AtomicU32::new(NO_NUMBER);
    let attending = Attending::new(order, &plan, mode, &number, report.clone());
    let (cloned, attended) = std::thread::scope(|scope| {
        let attendant = std::thread::Builder::new()
            .name("nf-attendant".into())
            .spawn_scoped(scope, || attending.until_executed(ours.report, ours.reply))
            .map_err(|error| HostError::system("starting a thread", error))?;
        let mut body = Body { plan: &plan, scene: &mut scene, ends: &theirs, missing };
        let cloned = birth::clone(mode, &mut body, &number);
        // What is left of the pipe's other ends is the new process's: its end will be seen.
        drop(theirs);
        let lost = |_| Attended {
            groups: Groups::default(),
            report: report.clone(),
            result: Err(HostError::system("attending to a function", Errno::CANCELED)),
        };
        let attended = attendant.join().unwrap_or_else(lost);
        Ok::<_, HostError>((cloned, attended))
    })?;
    let pid = cloned.map_err(|source| HostError::Sandbox {
        measure: Measure::MountNamespace,
        step: "making namespaces",
        source,
    })?;
    // JUSTIFICATION: the descriptor comes as a number.
    // SAFETY: the clone succeeded, so the number is that of a descriptor which nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(number.into_inner().cast_signed()) };
    let (control, output) = (ours.control, ours.output);
    let Attended { groups, report: told, result } = attended;
    let launched = Launched { pid, pidfd, control, output, groups, report: told };
    match result.and_then(|()| refuse_missing(order, &launched.report)) {
        Ok(()) => Ok(launched),
        Err(error) => {
            end(&launched);
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
pub(crate) fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::SETPCAP
        | CapabilitySet::SETFCAP;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
        && has_users(NOBODY, 1)
}

/// Why a function has no user of its own outside, if so.
fn no_own_user(mode: NamespaceMode) -> Option<&'static str> {
    let may = |sets: CapabilitySets| {
        sets.effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID)
    };
    if mode == NamespaceMode::Unprivileged || !rustix::thread::capabilities(None).is_ok_and(may) {
        return Some("an ordinary user has no other number to give than its own");
    }
    (!has_users(USERS_FIRST, USERS))
        .then_some("this container has no numbers of users from 2013265920 to 2017460223")
}

/// Whether this process's namespace has these users and groups.
fn has_users(first: u32, count: u32) -> bool {
    ["/proc/self/uid_map", "/proc/self/gid_map"]
        .into_iter()
        .all(|map| fs::read_to_string(map).is_ok_and(|text| maps(&text, first, count)))
}

/// Whether one line of a map of users has these (user_namespaces(7): first, outside, count).
fn maps(map: &str, wanted: u32, wanted_count: u32) -> bool {
    let (wanted, end) = (u64::from(wanted), u64::from(wanted) + u64::from(wanted_count));
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        first <= wanted && end <= first.saturating_add(count)
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
            input: moved_up(input)?,
            output: moved_up(their_output)?,
            control: moved_up(theirs)?,
            report: moved_up(their_report)?,
            reply: moved_up(their_reply)?,
            host_reply: reply.as_raw_fd(),
        };
        Ok((Ours { control, output, report, reply }, ends))
    };
    make().map_err(|error| HostError::system("making the pipes of a function", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_found_in_maps() {
        let maps_nobody = |map| maps(map, NOBODY, 1);
        assert!(maps_nobody("         0          0 4294967295\n"));
        assert!(maps_nobody("0 100000 1000\n65534 7 1\n"));
        assert!(!maps_nobody("         0       1000          1\n"));
        assert!(!maps_nobody("0 0 65534\nx\n1 2\n"));
        assert!(maps("0 0 4294967295\n", USERS_FIRST, USERS));
        assert!(!maps("0 100000 65536\n", USERS_FIRST, USERS));
        assert!(!maps("0 0 2013265921\n", USERS_FIRST, USERS));
    }
}
