//! What the new process does before it is the function.
//!
//! It uses the memory of a host with many threads, and stands in for one of them: a lock that
//! another holds is held by a stranger, and what is freed or closed for good here is so for the
//! host. So nothing here allocates, frees, locks, formats or panics; system calls and memory that
//! the host prepared are all there is. (Descriptors are its own: they are closed by execve.)

use super::script::{NEW_ROOT, ROOT_OPTIONS, Scene, Step};
use super::{CONTROL_FD, NOBODY, own_user};
use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use rustix::process::{Gid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

/// Exit status of a process that did not become the program.
pub(super) const NOT_EXECUTED: i32 = 127;

/// The kernel's number of signals.
const SIGNALS: i32 = 64;

/// A line from the new process to the host: which step, and its error; 0 asks the host to do its
/// part of that step.
pub(super) type Message = [i32; 2];

/// The descriptors of a new process; all above those that the function gets.
pub(super) struct Ends {
    /// Standard input: nothing to be read.
    pub input: OwnedFd,
    /// Standard output and error.
    pub output: OwnedFd,
    pub control: OwnedFd,
    /// To the host: [`Message`]s. Closed by execve, and so the host knows.
    pub report: OwnedFd,
    /// From the host: the error number of its part of a step; closed when the host is gone.
    pub reply: OwnedFd,
    /// The host's end of that, of which the new process has a copy: while that is open, it never
    /// learns that the host is gone.
    pub host_reply: RawFd,
}

/// A step, and whether the process must end when it fails.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub step: Step,
    pub required: bool,
}

/// What the new process works with.
pub(super) struct Body<'a> {
    pub plan: &'a [Planned],
    pub scene: &'a mut Scene,
    pub ends: &'a Ends,
    /// Bits of measures that are missing already.
    pub missing: u32,
}

/// Carries out the steps, and ends with the last.
pub(super) fn run(body: &mut Body<'_>) -> ! {
    let Body { plan, scene, ends, missing: failed } = body;
    leave_nothing_behind(ends);
    let mut failed = *failed;
    for (index, planned) in (0_i32..).zip(*plan) {
        let is_missing = |bits: u32| bits & failed != 0;
        if planned.step.measure().is_some_and(|measure| is_missing(measure.bit())) {
            continue;
        }
        let done = if planned.step.needs().is_some_and(|measure| is_missing(measure.bit())) {
            Err(Errno::OPNOTSUPP)
        } else {
            perform(planned.step, index, scene, ends)
        };
        let Err(error) = done else { continue };
        report(ends, [index, error.raw_os_error()]);
        match planned.step.measure() {
            Some(measure) if !planned.required => failed |= measure.bit(),
            _ => exit(NOT_EXECUTED),
        }
    }
    exit(NOT_EXECUTED)
}

/// Ends with the host also while it waits for it. The signal is lost with the change of users, and
/// is asked for again behind that (`die_with_parent`); before it is, others that are made at the
/// same time may have a copy of the host's end, too, and end by theirs.
fn leave_nothing_behind(ends: &Ends) {
    // JUSTIFICATION: the number's owner is in the host; here there is only the number.
    // SAFETY: the process has descriptors of its own, and nothing in it uses this one.
    unsafe { libc::close(ends.host_reply) };
    // A kernel that refuses does so again where it counts.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

fn perform(step: Step, index: i32, scene: &mut Scene, ends: &Ends) -> Result<(), Errno> {
    match step {
        Step::Enlist | Step::OomScore | Step::MapUser => ask(index, ends),
        Step::Session => session(),
        Step::PrivateMounts => {
            let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            rustix::mount::mount_change(c"/", flags)
        }
        Step::OpenFiles => open_files(scene),
        Step::MountRoot => mount_root(),
        Step::Populate => populate(scene),
        Step::EnterRoot => enter_root(),
        Step::ReadOnlyRoot => read_only(),
        Step::LeaveGroups => rustix::thread::set_thread_groups(&[]),
        Step::UserNamespace => unshare_user(),
        Step::BecomeNobody => become_nobody(scene),
        Step::DropCapabilities => drop_capabilities(),
        Step::NoNewPrivileges => rustix::thread::set_no_new_privs(true),
        Step::Affinity => match &scene.cpus {
            Some(cpus) => rustix::thread::sched_setaffinity(None, cpus),
            None => Ok(()),
        },
        Step::Descriptors => descriptors(ends),
        Step::EnterLandlock => enter_landlock(scene),
        Step::DieWithParent => die_with_parent(ends),
        Step::LimitResources => limit_resources(scene),
        Step::LimitThreads => limit(Resource::Nproc, scene.threads),
        Step::EnterFilter => enter_filter(scene),
        Step::Exec => Err(exec(scene)),
    }
}

/// Away from the host's terminal, with the signals of a fresh program and a usual umask.
fn session() -> Result<(), Errno> {
    rustix::process::setsid()?;
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    // JUSTIFICATION: ignored signals stay ignored over execve; there is no safe call.
    // SAFETY: plain data, of which zero is a value: the default action, no flags.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    for signal in 1..=SIGNALS {
        // SAFETY: the default action runs no code of ours, and actions are not shared with the
        // host (no CLONE_SIGHAND); an error (SIGKILL) is as good.
        unsafe { libc::sigaction(signal, &raw const default, std::ptr::null_mut()) };
    }
    // JUSTIFICATION: plain data for the call below.
    // SAFETY: a signal set is an array of integers, for which zero is a value: the empty set.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // JUSTIFICATION: the host blocked all signals around the making of this process.
    // SAFETY: `none` is a signal set that lives over the call; the old one is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) }.into())
}

/// Detached copies of the mounts of all files, before the new root covers anything.
fn open_files(scene: &mut Scene) -> Result<(), Errno> {
    for source in &mut scene.sources {
        let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        if source.directory {
            flags |= OpenTreeFlags::AT_RECURSIVE;
        }
        // A number: it must not be closed where the host forgets the scene.
        source.tree = rustix::mount::open_tree(CWD, source.path.as_c_str(), flags)?.into_raw_fd();
    }
    Ok(())
}

fn mount_root() -> Result<(), Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"function", NEW_ROOT, c"tmpfs", flags, ROOT_OPTIONS)?;
    rustix::process::chdir(NEW_ROOT)
}

fn populate(scene: &Scene) -> Result<(), Errno> {
    for dir in &scene.dirs {
        rustix::fs::mkdirat(CWD, dir.as_c_str(), Mode::from_raw_mode(0o755))?;
    }
    for source in &scene.sources {
        if !source.directory {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o444);
            rustix::fs::openat(CWD, source.relative_path.as_c_str(), flags, mode)?;
        }
        // JUSTIFICATION: kept as a number, see `open_files`.
        // SAFETY: this process opened it and does not close it.
        let tree = unsafe { BorrowedFd::borrow_raw(source.tree) };
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(tree, c"", CWD, source.relative_path.as_c_str(), flags)?;
    }
    Ok(())
}

/// Makes the working directory the root and lets go of the old one (pivot_root(2), NOTES).
fn enter_root() -> Result<(), Errno> {
    rustix::process::pivot_root(c".", c".")?;
    rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
    rustix::process::chdir(c"/")
}

fn read_only() -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // JUSTIFICATION: no safe call for mount_setattr.
    // SAFETY: the path is a C string and the attributes live over the call, which reads as many
    // bytes of them as it is told.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
}

fn unshare_user() -> Result<(), Errno> {
    // JUSTIFICATION: the safe call is deprecated for what descriptors might be unshared.
    // SAFETY: no flag for descriptors is given.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) }
}

/// Has the host do its part of a step.
fn ask(index: i32, ends: &Ends) -> Result<(), Errno> {
    report(ends, [index, 0]);
    let mut answer = [0; 4];
    match rustix::io::retry_on_intr(|| rustix::io::read(&ends.reply, &mut answer))? {
        4 => match i32::from_ne_bytes(answer) {
            0 => Ok(()),
            error => Err(Errno::from_raw_os_error(error)),
        },
        // The host is gone.
        _ => exit(NOT_EXECUTED),
    }
}

fn become_nobody(scene: &Scene) -> Result<(), Errno> {
    // Without namespaces its number is the one that the host sees, too.
    let own = scene.takes_own_user.then(|| rustix::process::getpid().as_raw_pid());
    let number = own.and_then(own_user).unwrap_or(NOBODY);
    let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
    // Mounts may follow, for which the namespace's capabilities are needed.
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    // A change of user clears what is in effect, and keeps what is permitted.
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective = sets.permitted;
    rustix::thread::set_capabilities(None, sets)
}

fn drop_capabilities() -> Result<(), Errno> {
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(locked)?;
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Past the last one that this kernel knows.
            Err(Errno::INVAL) => break,
            done => done?,
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
}

/// 0 to 3 are the function's; every other one is closed by execve.
fn descriptors(ends: &Ends) -> Result<(), Errno> {
    for (from, to) in
        [(&ends.input, 0), (&ends.output, 1), (&ends.output, 2), (&ends.control, CONTROL_FD)]
    {
        // JUSTIFICATION: the numbers are the point, and a safe dup2 needs their owners.
        // SAFETY: what the copied process had at these numbers is used no more; the ends' own
        // numbers are higher.
        check(unsafe { libc::dup2(from.as_raw_fd(), to) }.into())?;
    }
    // JUSTIFICATION: no safe call for close_range.
    // SAFETY: descriptors are marked to be closed by execve and none is closed now.
    check(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            CONTROL_FD + 1,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    })
}

fn enter_landlock(scene: &Scene) -> Result<(), Errno> {
    let Some(rules) = &scene.rules else { return Err(Errno::OPNOTSUPP) };
    // JUSTIFICATION: the landlock crate's call allocates.
    // SAFETY: takes a descriptor and flags, no memory.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) })
}

/// Killed when the thread that made this process ends; if it ended already, the pipe tells.
fn die_with_parent(ends: &Ends) -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut hung_up = [rustix::event::PollFd::new(&ends.reply, rustix::event::PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut hung_up, Some(&now))?;
    if hung_up.iter().any(|end| !end.revents().is_empty()) {
        exit(NOT_EXECUTED);
    }
    Ok(())
}

fn limit_resources(scene: &Scene) -> Result<(), Errno> {
    scene.resources.iter().try_for_each(|(resource, most)| limit(*resource, *most))
}

/// Sets a limit for good, to what is asked for or to a lower one in force.
fn limit(resource: Resource, most: u64) -> Result<(), Errno> {
    let most = rustix::process::getrlimit(resource).maximum.map_or(most, |now| now.min(most));
    rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
}

fn enter_filter(scene: &Scene) -> Result<(), Errno> {
    for filter in &scene.filters {
        let program = libc::sock_fprog {
            len: filter.len() as libc::c_ushort,
            filter: filter.as_ptr().cast_mut().cast(),
        };
        // JUSTIFICATION: the filter compiler's own call allocates.
        // SAFETY: the program's instructions have the kernel's layout, as many as it says, and
        // live over the call, which only reads them.
        check(unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
        })?;
    }
    Ok(())
}

/// Becomes the program; comes back with the error if it cannot.
fn exec(scene: &Scene) -> Errno {
    let exec = &scene.exec;
    // JUSTIFICATION: no safe call for execve.
    // SAFETY: path, arguments and environment are C strings which live until the call has
    // succeeded, in arrays that end with a null pointer.
    let error =
        unsafe { libc::execve(exec.program.as_ptr(), exec.argv.as_ptr(), exec.envp.as_ptr()) };
    check(error.into()).err().unwrap_or(Errno::NOEXEC)
}

/// The result of a C call that says -1 and sets errno.
fn check(result: i64) -> Result<(), Errno> {
    if result != -1 {
        return Ok(());
    }
    // JUSTIFICATION: errno is the only place of the error.
    // SAFETY: the C library gives a valid address, of the calling thread's errno.
    Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}

/// An error of this pipe cannot be told to anyone; the host sees the end of the process.
fn report(ends: &Ends, message: Message) {
    let mut bytes = [0; 8];
    let (step, error) = bytes.split_at_mut(4);
    step.copy_from_slice(&message[0].to_ne_bytes());
    error.copy_from_slice(&message[1].to_ne_bytes());
    let _ = rustix::io::write(&ends.report, &bytes);
}

fn exit(status: i32) -> ! {
    // JUSTIFICATION: the host's exit handlers and destructors are not this process's to run.
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(status) }
}
