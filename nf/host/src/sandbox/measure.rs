//! What a sandbox consists of, and what became of each part.

use std::fmt;

/// One measure that keeps a function apart from the rest of the machine.
///
/// The order is that of a [`SandboxReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Measure {
    /// A user namespace: the function's user is nobody outside, and its capabilities reach nothing.
    UserNamespace,
    /// A mount namespace: its own tree of files.
    MountNamespace,
    /// A process namespace: it sees and signals no process but its own.
    PidNamespace,
    /// A network namespace without any interface that is up.
    NetworkNamespace,
    /// System V objects and message queues of its own.
    IpcNamespace,
    /// Host name of its own.
    UtsNamespace,
    /// It does not see in which control group it is.
    CgroupNamespace,
    /// It runs as an unprivileged user without supplementary groups.
    UnprivilegedUser,
    /// Outside it has a user and group of its own: no other function's, and nobody else's.
    OwnUser,
    /// Its root directory holds the program and its libraries, read-only, and nothing else.
    PrivateRoot,
    /// No program that it starts can gain rights.
    NoNewPrivileges,
    /// Every capability is dropped, from the bounding set too.
    Capabilities,
    /// It dies with the thread that started it.
    DiesWithParent,
    /// Limits to memory, files, core dumps, locked memory, queues, priorities.
    ResourceLimits,
    /// Where the machine runs out of memory, the kernel ends it before its host.
    OomScore,
    /// A limit to its threads.
    ThreadLimit,
    /// Files are refused by Landlock too, and executing anything but the program.
    Landlock,
    /// System calls outside the allow-list fail.
    Seccomp,
    /// It runs on the CPUs it was given.
    CpuAffinity,
    /// A control group limits its share of CPU time.
    CgroupCpu,
    /// A control group limits its memory.
    CgroupMemory,
    /// A control group limits its processes and threads.
    CgroupPids,
}

impl Measure {
    /// Every measure, in order.
    pub const ALL: [Measure; 22] = [
        Measure::UserNamespace,
        Measure::MountNamespace,
        Measure::PidNamespace,
        Measure::NetworkNamespace,
        Measure::IpcNamespace,
        Measure::UtsNamespace,
        Measure::CgroupNamespace,
        Measure::UnprivilegedUser,
        Measure::OwnUser,
        Measure::PrivateRoot,
        Measure::NoNewPrivileges,
        Measure::Capabilities,
        Measure::DiesWithParent,
        Measure::ResourceLimits,
        Measure::OomScore,
        Measure::ThreadLimit,
        Measure::Landlock,
        Measure::Seccomp,
        Measure::CpuAffinity,
        Measure::CgroupCpu,
        Measure::CgroupMemory,
        Measure::CgroupPids,
    ];

    /// The measure's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Measure::UserNamespace => "user namespace",
            Measure::MountNamespace => "mount namespace",
            Measure::PidNamespace => "process namespace",
            Measure::NetworkNamespace => "network namespace",
            Measure::IpcNamespace => "IPC namespace",
            Measure::UtsNamespace => "host name namespace",
            Measure::CgroupNamespace => "control group namespace",
            Measure::UnprivilegedUser => "unprivileged user",
            Measure::OwnUser => "user of its own",
            Measure::PrivateRoot => "private root directory",
            Measure::NoNewPrivileges => "no new privileges",
            Measure::Capabilities => "capabilities dropped",
            Measure::DiesWithParent => "dies with its host",
            Measure::ResourceLimits => "resource limits",
            Measure::OomScore => "first to end for want of memory",
            Measure::ThreadLimit => "thread limit",
            Measure::Landlock => "Landlock",
            Measure::Seccomp => "system call filter",
            Measure::CpuAffinity => "CPU affinity",
            Measure::CgroupCpu => "control group: CPU time",
            Measure::CgroupMemory => "control group: memory",
            Measure::CgroupPids => "control group: processes",
        }
    }

    /// Whether [`Isolation::Strict`] refuses to run without it when it is asked for.
    ///
    /// Control groups share out the machine; what one function could do to another without them is
    /// bounded by the resource limits and the filter, so they are reported only, except where a
    /// configuration asks for a share of CPU time, which nothing else enforces. A user of its own
    /// is only root's to give.
    pub fn is_required(self) -> bool {
        !matches!(
            self,
            Measure::OwnUser
                | Measure::CgroupNamespace
                | Measure::CgroupMemory
                | Measure::CgroupPids
        )
    }

    /// Whether it is made at once with the process, or others stand on it.
    pub(crate) fn is_namespace(self) -> bool {
        matches!(
            self,
            Measure::UserNamespace
                | Measure::MountNamespace
                | Measure::PidNamespace
                | Measure::NetworkNamespace
                | Measure::IpcNamespace
                | Measure::UtsNamespace
                | Measure::CgroupNamespace
        )
    }

    /// What may be done where it cannot be applied.
    pub fn remedy(self) -> &'static str {
        match self {
            Measure::UserNamespace
            | Measure::MountNamespace
            | Measure::PidNamespace
            | Measure::NetworkNamespace
            | Measure::IpcNamespace
            | Measure::UtsNamespace
            | Measure::CgroupNamespace => {
                "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1 where there is \
                 such a key, user.max_user_namespaces above 0, \
                 kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), or run Thruway as root \
                 (in a container with CAP_SETFCAP)"
            }
            Measure::PrivateRoot => {
                "allow mounts in user namespaces \
                 (kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), or run Thruway as \
                 root; the kernel must be 5.12 or later, and the program in a directory that its \
                 user may enter"
            }
            Measure::Landlock => "boot a kernel of 5.13 or later with lsm=landlock,... in effect",
            Measure::Seccomp => "boot a kernel with CONFIG_SECCOMP_FILTER",
            Measure::CpuAffinity => "give CPUs that this machine has and that Thruway may use",
            Measure::CgroupCpu | Measure::CgroupMemory | Measure::CgroupPids => {
                "run Thruway where it may make control groups: as root, or in a systemd unit with \
                 Delegate=yes and DelegateSubgroup=thruway"
            }
            Measure::OwnUser => {
                "run Thruway as root, in a container with a user namespace that has the numbers \
                 from 2013265920 to 2017460223"
            }
            Measure::OomScore => "run Thruway where it may write to /proc",
            Measure::ThreadLimit => "allow user namespaces: the limit counts within them",
            Measure::UnprivilegedUser
            | Measure::NoNewPrivileges
            | Measure::Capabilities
            | Measure::DiesWithParent
            | Measure::ResourceLimits => "run Thruway as root, or outside a confining container",
        }
    }

    /// The measure's bit.
    pub(crate) const fn bit(self) -> u32 {
        1 << self as u8
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much isolation a function must have to run at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// A missing measure that matters to security is an error that names the remedy.
    #[default]
    Strict,
    /// What cannot be applied is reported, and the function runs.
    Relaxed,
}

/// What became of a measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// In force.
    Applied,
    /// Not in force, and why.
    Missing(String),
    /// The order did not ask for it.
    NotAsked,
}

/// Each measure of a sandbox with what became of it: nothing is skipped silently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxReport {
    outcomes: Vec<Outcome>,
    /// What else there is to be said of it, first.
    notes: Vec<String>,
}

impl SandboxReport {
    /// A report in which nothing was asked for yet.
    pub(crate) fn new() -> SandboxReport {
        let outcomes = vec![Outcome::NotAsked; Measure::ALL.len()];
        SandboxReport { outcomes, notes: Vec::new() }
    }

    /// Notes what no measure says.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Notes an outcome; a measure that is missing stays so.
    pub(crate) fn set(&mut self, measure: Measure, outcome: Outcome) {
        let relative_path = &mut self.outcomes[measure as usize];
        if !matches!(relative_path, Outcome::Missing(_)) {
            *relative_path = outcome;
        }
    }

    /// What became of a measure.
    pub fn outcome(&self, measure: Measure) -> &Outcome {
        &self.outcomes[measure as usize]
    }

    /// Whether a measure is in force.
    pub fn has(&self, measure: Measure) -> bool {
        *self.outcome(measure) == Outcome::Applied
    }

    /// Whether it is known that a measure is not in force.
    pub(crate) fn is_missing(&self, measure: Measure) -> bool {
        matches!(self.outcome(measure), Outcome::Missing(_))
    }

    /// Every measure with its outcome, in order.
    pub fn rows(&self) -> impl Iterator<Item = (Measure, &Outcome)> {
        Measure::ALL.into_iter().zip(&self.outcomes)
    }

    /// The measures that are missing, with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (Measure, &str)> {
        self.rows().filter_map(|(measure, outcome)| match outcome {
            Outcome::Missing(why) => Some((measure, why.as_str())),
            _ => None,
        })
    }
}

/// The notes, then a line per measure.
impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        for (measure, outcome) in self.rows() {
            match outcome {
                Outcome::Applied => writeln!(f, "{:<31} applied", measure.name())?,
                Outcome::NotAsked => writeln!(f, "{:<31} not asked for", measure.name())?,
                Outcome::Missing(why) => {
                    writeln!(f, "{:<31} NOT APPLIED: {why}", measure.name())?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_each_measure_at_its_place() {
        for (index, measure) in Measure::ALL.into_iter().enumerate() {
            assert_eq!(measure as usize, index, "{measure}");
        }
    }

    #[test]
    fn what_is_missing_stays_missing_in_the_report() {
        let mut report = SandboxReport::new();
        report.set(Measure::Seccomp, Outcome::Missing("no filter".into()));
        report.set(Measure::Seccomp, Outcome::Applied);
        report.set(Measure::Landlock, Outcome::Applied);
        assert_eq!(report.missing().collect::<Vec<_>>(), [(Measure::Seccomp, "no filter")]);
        assert!(report.has(Measure::Landlock) && !report.has(Measure::Seccomp));
        assert!(report.to_string().contains("NOT APPLIED: no filter"));
    }
}
