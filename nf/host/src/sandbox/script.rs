//! The steps from a new process to the program, and all that they need, prepared beforehand.

use super::files::{Grant, Grants};
use super::lasting::moved_up;
use super::measure::{Measure, SandboxReport};
use super::{Limits, Order, Outcome, fence, filter};
use crate::error::HostError;
use rustix::process::Resource;
use rustix::thread::CpuSet;
use seccompiler::BpfProgram;
use std::ffi::{CString, c_char};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// Where the new root is put together; every Linux system has the directory, and no program in it.
pub(super) const NEW_ROOT: &std::ffi::CStr = c"/proc";

/// What the new root's file system may hold: names of directories and files to mount on.
pub(super) const ROOT_OPTIONS: &std::ffi::CStr = c"size=256k,nr_inodes=1024,mode=755";

/// One thing that the new process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Enlist,
    OomScore,
    Session,
    PrivateMounts,
    OpenFiles,
    MountRoot,
    Populate,
    EnterRoot,
    ReadOnlyRoot,
    LeaveGroups,
    UserNamespace,
    MapUser,
    BecomeNobody,
    DropCapabilities,
    NoNewPrivileges,
    Affinity,
    Descriptors,
    EnterLandlock,
    DieWithParent,
    LimitResources,
    LimitThreads,
    EnterFilter,
    Exec,
}

impl Step {
    /// What is being done, in an error.
    pub fn what(self) -> &'static str {
        match self {
            Step::Enlist => "joining control groups",
            Step::OomScore => "raising its OOM score",
            Step::Session => "making a session",
            Step::PrivateMounts => "making mounts private",
            Step::OpenFiles => "opening the program and its libraries",
            Step::MountRoot => "mounting a new root",
            Step::Populate => "mounting the program and its libraries",
            Step::EnterRoot => "entering the new root",
            Step::ReadOnlyRoot => "making the new root read-only",
            Step::LeaveGroups => "leaving supplementary groups",
            Step::UserNamespace => "making a user namespace",
            Step::MapUser => "mapping the user",
            Step::BecomeNobody => "becoming an unprivileged user",
            Step::DropCapabilities => "dropping capabilities",
            Step::NoNewPrivileges => "giving up new privileges",
            Step::Affinity => "setting the CPU affinity",
            Step::Descriptors => "arranging descriptors",
            Step::EnterLandlock => "entering Landlock",
            Step::DieWithParent => "tying its life to the host's",
            Step::LimitResources => "limiting resources",
            Step::LimitThreads => "limiting threads",
            Step::EnterFilter => "installing the system call filter",
            Step::Exec => "executing the program",
        }
    }

    /// The measure that a step is a part of; none for what the process cannot do without.
    pub fn measure(self) -> Option<Measure> {
        Some(match self {
            Step::Enlist | Step::Session | Step::Descriptors | Step::Exec => return None,
            Step::PrivateMounts
            | Step::OpenFiles
            | Step::MountRoot
            | Step::Populate
            | Step::EnterRoot
            | Step::ReadOnlyRoot => Measure::PrivateRoot,
            Step::UserNamespace | Step::MapUser => Measure::UserNamespace,
            Step::LeaveGroups | Step::BecomeNobody => Measure::UnprivilegedUser,
            Step::DropCapabilities => Measure::Capabilities,
            Step::NoNewPrivileges => Measure::NoNewPrivileges,
            Step::Affinity => Measure::CpuAffinity,
            Step::EnterLandlock => Measure::Landlock,
            Step::DieWithParent => Measure::DiesWithParent,
            Step::LimitResources => Measure::ResourceLimits,
            Step::OomScore => Measure::OomScore,
            Step::LimitThreads => Measure::ThreadLimit,
            Step::EnterFilter => Measure::Seccomp,
        })
    }

    /// The measure without which a step must not be tried: mounts would be the host's.
    pub fn needs(self) -> Option<Measure> {
        match self.measure() {
            Some(Measure::PrivateRoot) => Some(Measure::MountNamespace),
            // Elsewhere it would count what others of the same user have.
            Some(Measure::ThreadLimit) => Some(Measure::UserNamespace),
            _ => None,
        }
    }
}

/// How the namespaces are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamespaceMode {
    /// By root: namespaces belong to the system, and the process leaves it for a user namespace
    /// afterwards, in which it has no power over them.
    Privileged,
    /// By an ordinary user: the user namespace comes first and gives the right to make the others.
    Unprivileged,
    /// Not at all (relaxed isolation).
    Without,
}

impl NamespaceMode {
    /// The steps in their order.
    pub fn steps(self) -> Vec<Step> {
        let root = [
            Step::PrivateMounts,
            Step::OpenFiles,
            Step::MountRoot,
            Step::Populate,
            Step::EnterRoot,
            Step::ReadOnlyRoot,
        ];
        let user = [Step::MapUser, Step::BecomeNobody];
        let rest = [
            Step::DropCapabilities,
            Step::NoNewPrivileges,
            Step::Affinity,
            Step::Descriptors,
            Step::EnterLandlock,
            // After the last change of user or rights, which would undo it.
            Step::DieWithParent,
            // After what needs memory and descriptors.
            Step::LimitResources,
            Step::LimitThreads,
            Step::EnterFilter,
            Step::Exec,
        ];
        let mut steps = vec![Step::Enlist, Step::OomScore, Step::Session];
        match self {
            NamespaceMode::Privileged => {
                steps.extend(root);
                steps.extend([Step::LeaveGroups, Step::UserNamespace]);
                steps.extend(user);
            }
            NamespaceMode::Unprivileged => {
                steps.extend(user);
                steps.extend(root);
            }
            NamespaceMode::Without => steps.extend(user),
        }
        steps.extend(rest);
        steps
    }
}

/// A file to be mounted at the same path in the new root.
pub(super) struct Source {
    pub path: CString,
    /// The path without its first slash.
    pub relative_path: CString,
    pub directory: bool,
    /// Number of the descriptor of the detached mount, once it is made: the new process's, not
    /// this one's.
    pub tree: RawFd,
}

/// All that the steps use.
pub(super) struct Scene {
    pub sources: Vec<Source>,
    /// Directories of the new root, parents first.
    pub dirs: Vec<CString>,
    pub resources: Vec<(Resource, u64)>,
    pub threads: u64,
    /// Without namespaces it takes its own user itself, if it may have one.
    pub takes_own_user: bool,
    pub cpus: Option<CpuSet>,
    pub rules: Option<OwnedFd>,
    pub filters: [BpfProgram; 2],
    pub exec: Exec,
}

/// Arguments of execve.
pub(super) struct Exec {
    pub program: CString,
    /// The strings that the pointers below lead to; a CString's bytes do not move with it.
    _strings: Vec<CString>,
    pub argv: Vec<*const c_char>,
    pub envp: Vec<*const c_char>,
}

impl Scene {
    /// Prepares everything. What cannot be had is noted in the report, and its step left out.
    pub fn prepare(
        order: &Order,
        mode: NamespaceMode,
        report: &mut SandboxReport,
    ) -> Result<Scene, HostError> {
        let grants = Grants::of(&order.program)?;
        let rules = match fence::ruleset(&grants) {
            Ok(rules) => Some(moved_up(rules).map_err(|e| HostError::system("Landlock", e))?),
            Err(why) => {
                report.set(Measure::Landlock, Outcome::Missing(why));
                None
            }
        };
        let filters = filter::programs(mode != NamespaceMode::Without).map_err(|error| {
            HostError::system("system call filter", std::io::Error::other(error))
        })?;
        Ok(Scene {
            sources: grants.files.iter().map(source).collect::<Result<_, _>>()?,
            dirs: directories(&grants)?,
            resources: resources(&order.limits),
            threads: order.limits.threads.max(1),
            takes_own_user: mode == NamespaceMode::Without && !report.is_missing(Measure::OwnUser),
            cpus: cpus(&order.limits)?,
            rules,
            filters,
            exec: Exec::prepare(order, &grants)?,
        })
    }
}

impl Exec {
    fn prepare(order: &Order, grants: &Grants) -> Result<Exec, HostError> {
        let program = c_path(&grants.files[0].path)?;
        // As it was written: an interpreter finds its environment beside that path, not beside the
        // file that a link leads to.
        let written = std::path::absolute(&order.program.path)
            .map_err(|source| HostError::system("the path of the program", source))?;
        let mut strings = vec![c_path(&written)?];
        for arg in &order.program.args {
            strings.push(c_string("an argument of the function", arg.as_bytes())?);
        }
        let argc = strings.len();
        for (name, value) in &order.program.env {
            strings.push(c_string(
                "a variable of the function",
                format!("{name}={value}").as_bytes(),
            )?);
        }
        if !grants.library_path.is_empty() {
            let mut text = b"LD_LIBRARY_PATH=".to_vec();
            let dirs: Vec<&[u8]> =
                grants.library_path.iter().map(|dir| dir.as_os_str().as_bytes()).collect();
            text.extend(dirs.join(&b':'));
            strings.push(c_string("a directory of libraries", &text)?);
        }
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(&strings[..argc]), pointers(&strings[argc..]));
        Ok(Exec { program, _strings: strings, argv, envp })
    }
}

fn source(grant: &Grant) -> Result<Source, HostError> {
    let path = c_path(&grant.path)?;
    let relative_path = c_path(grant.path.strip_prefix("/").unwrap_or(&grant.path))?;
    Ok(Source { path, relative_path, directory: grant.directory, tree: -1 })
}

/// Every directory above a granted file, and the granted directories; each after its parent.
fn directories(grants: &Grants) -> Result<Vec<CString>, HostError> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for grant in &grants.files {
        let relative_path = grant.path.strip_prefix("/").unwrap_or(&grant.path);
        let mut above: Vec<&Path> = relative_path.ancestors().collect();
        above.reverse();
        // The first is the root itself, the last the file.
        let end = if grant.directory { above.len() } else { above.len() - 1 };
        for dir in above.get(1..end).unwrap_or_default() {
            if !dirs.iter().any(|one| one == dir) {
                dirs.push((*dir).into());
            }
        }
    }
    dirs.iter().map(|dir| c_path(dir)).collect()
}

/// What the process may have, besides threads (setrlimit(2)).
fn resources(limits: &Limits) -> Vec<(Resource, u64)> {
    vec![
        // Not 0: where core dumps go to a program, only 1 stops them (core(5)), and that program
        // is not in the sandbox. No file is that short.
        (Resource::Core, 1),
        (Resource::Fsize, 0),
        (Resource::Msgqueue, 0),
        (Resource::Nice, 0),
        (Resource::Rtprio, 0),
        (Resource::Sigpending, 64),
        (Resource::Nofile, limits.open_files.max(8)),
        (Resource::Memlock, limits.locked_bytes),
        (Resource::As, limits.address_space()),
    ]
}

/// The CPUs that a process may run on, if they are given.
pub(crate) fn cpus(limits: &Limits) -> Result<Option<CpuSet>, HostError> {
    if limits.cpus.is_empty() {
        return Ok(None);
    }
    let mut set = CpuSet::new();
    for cpu in &limits.cpus {
        if *cpu >= CpuSet::MAX_CPU {
            let why = format!("there is no CPU {cpu}; a machine has at most {}", CpuSet::MAX_CPU);
            return Err(HostError::Argument { what: "CPUS", why });
        }
        set.set(*cpu);
    }
    Ok(Some(set))
}

fn c_path(path: &Path) -> Result<CString, HostError> {
    c_string("a path", path.as_os_str().as_bytes())
}

fn c_string(what: &'static str, bytes: &[u8]) -> Result<CString, HostError> {
    CString::new(bytes).map_err(|_| {
        let why = format!("{:?} has a zero byte in it", String::from_utf8_lossy(bytes));
        HostError::Argument { what, why }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_after_their_parents() {
        let grant =
            |path: &str, directory| Grant { path: path.into(), executable: false, directory };
        let files = vec![grant("/a/b/c", false), grant("/a/d", true), grant("/e", false)];
        let dirs = directories(&Grants { files, library_path: Vec::new() }).unwrap();
        assert_eq!(dirs, [c"a", c"a/b", c"a/d"].map(|dir| dir.to_owned()));
    }

    #[test]
    fn every_way_ends_with_the_filter_and_the_program() {
        for mode in [NamespaceMode::Privileged, NamespaceMode::Unprivileged, NamespaceMode::Without]
        {
            let steps = mode.steps();
            assert_eq!(steps[steps.len() - 2..], [Step::EnterFilter, Step::Exec]);
            let at = |step| steps.iter().position(|one| *one == step);
            assert!(at(Step::DieWithParent) > at(Step::DropCapabilities), "it would be undone");
            assert!(at(Step::DropCapabilities) > at(Step::BecomeNobody));
        }
    }

    #[test]
    fn mounts_are_never_made_outside_a_mount_namespace() {
        for step in NamespaceMode::Privileged.steps() {
            if step.measure() == Some(Measure::PrivateRoot) {
                assert_eq!(step.needs(), Some(Measure::MountNamespace), "{step:?}");
            }
        }
    }
}
