//! The system calls that a function may make.
//!
//! An allow-list: what it lacks fails with EPERM. What a call may do to files is for the private
//! root and Landlock to say; here are the calls that a program needs to be loaded, to use its own
//! memory, threads, clock and signals, and to speak on the descriptors it was given. There is no
//! call that makes a socket, a process, a memory file, or reaches another process.

use super::calls;
use libc::{c_long, c_ulong};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

#[cfg(target_arch = "x86_64")]
const MACHINE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: TargetArch = TargetArch::aarch64;

/// Flags by which `clone` makes a thread, and not a process or a namespace.
const THREAD: u64 = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_PIDFD) as u64;

/// Advice on a process's own pages that takes nothing from others who map them: giving private
/// pages back, no huge pages, guard pages. All other advice changes pages, as MADV_REMOVE, which
/// takes those of a region away under its host's hands, or when and how the kernel moves them.
const ADVICE: [i32; 5] = [
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_NOHUGEPAGE,
    MADV_GUARD_INSTALL,
    MADV_GUARD_INSTALL + 1,
];

/// From asm-generic/mman-common.h; the next number takes the guards away. The C library guards
/// stacks by it.
const MADV_GUARD_INSTALL: i32 = 102;

/// Mappings of huge pages, which are the machine's, and those that grow over others.
const MAPPINGS_REFUSED: i32 = libc::MAP_HUGETLB | libc::MAP_GROWSDOWN;

/// What locks, conditions and joins are made of. Not those with priorities (FUTEX_LOCK_PI and its
/// like), which lend a thread's priority to another.
const FUTEX: [i32; 7] = [
    libc::FUTEX_WAIT,
    libc::FUTEX_WAKE,
    libc::FUTEX_REQUEUE,
    libc::FUTEX_CMP_REQUEUE,
    libc::FUTEX_WAKE_OP,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_WAKE_BITSET,
];

/// Its thread pointer, and nothing else of the processor's state.
#[cfg(target_arch = "x86_64")]
const ARCH: [i32; 2] = [0x1002, 0x1003];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters, to be installed in this order: the kernel takes the sternest answer of all, and of
/// two errors that of the filter installed last. `own_pids`: the function is process 1 of its
/// namespace.
///
/// # Errors
/// Of the compiler: a mistake in the rules above.
pub(crate) fn programs(own_pids: bool) -> Result<[BpfProgram; 2], BackendError> {
    let refused = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    let list = SeccompFilter::new(
        allowed(own_pids)?,
        refused(libc::EPERM),
        SeccompAction::Allow,
        MACHINE,
    )?;
    // The C library makes threads by clone3, whose arguments a filter cannot see; where that does
    // not exist, by clone.
    let absent: Rules = [(libc::SYS_clone3, Vec::new())].into();
    let absent = SeccompFilter::new(absent, SeccompAction::Allow, refused(libc::ENOSYS), MACHINE)?;
    Ok([list.try_into()?, absent.try_into()?])
}

/// Names and numbers of the system calls that a function may make, some of them with some arguments
/// only.
pub fn allowed_calls() -> impl Iterator<Item = (&'static str, c_long)> {
    let of_machine = calls::FREE_OF_MACHINE.iter().chain(calls::BOUND_OF_MACHINE);
    calls::FREE.iter().chain(calls::BOUND).chain(of_machine).copied()
}

fn allowed(own_pids: bool) -> Result<Rules, BackendError> {
    let free = calls::FREE.iter().chain(calls::FREE_OF_MACHINE);
    let mut rules: Rules = free.map(|(_, call)| (*call, Vec::new())).collect();
    for (_, call) in calls::BOUND.iter().chain(calls::BOUND_OF_MACHINE) {
        if let Some(alternatives) = bounds(*call, own_pids)? {
            rules.insert(*call, alternatives);
        }
    }
    Ok(rules)
}

/// With which arguments a call is allowed; none if it is not.
fn bounds(call: c_long, own_pids: bool) -> Result<Option<Vec<SeccompRule>>, BackendError> {
    Ok(Some(match call {
        // Answered with ENOSYS by the second filter.
        libc::SYS_clone3 => Vec::new(),
        libc::SYS_clone => {
            vec![all([argument(0, SeccompCmpOp::MaskedEq(THREAD | NAMESPACES), THREAD)?])?]
        }
        libc::SYS_mmap => mappings()?,
        // None becomes executable later.
        libc::SYS_mprotect => vec![
            all([argument(2, SeccompCmpOp::MaskedEq(CODE), 0)?])?,
            all([argument(2, SeccompCmpOp::MaskedEq(CODE), libc::PROT_WRITE as u64)?])?,
        ],
        libc::SYS_madvise => each(2, &ADVICE)?,
        libc::SYS_futex => {
            let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
            let alternative = |operation: &i32| all([masked(1, !flags, *operation)?]);
            FUTEX.iter().map(alternative).collect::<Result<_, _>>()?
        }
        // On the socket that it has, no bytes out of band.
        libc::SYS_sendto => {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            vec![all([masked(3, !flags, 0)?, argument(4, SeccompCmpOp::Eq, 0)?])?]
        }
        // Nothing that is of the open file, and so its host's too: flags, locks, leases, owners.
        libc::SYS_fcntl => each(
            1,
            &[
                libc::F_GETFD,
                libc::F_SETFD,
                libc::F_GETFL,
                libc::F_DUPFD,
                libc::F_DUPFD_CLOEXEC,
                libc::F_GET_SEALS,
            ],
        )?,
        // Interpreters (CPython) close their files so on execution; it is of the descriptor alone.
        libc::SYS_ioctl => each(1, &[libc::FIOCLEX as i32])?,
        libc::SYS_prctl => each(0, &[libc::PR_SET_NAME, libc::PR_GET_NAME])?,
        // Reading its own limits, changing none.
        libc::SYS_prlimit64 => {
            let own = argument(0, SeccompCmpOp::Eq, 0)?;
            vec![all([own, argument(2, SeccompCmpOp::Eq, 0)?])?]
        }
        // Its abort. Without a namespace, process 1 is another.
        libc::SYS_tgkill if own_pids => each(0, &[1])?,
        libc::SYS_tgkill => return Ok(None),
        // More filters, but no listener to them: mode SECCOMP_SET_MODE_FILTER, flags 0 or TSYNC.
        libc::SYS_seccomp => {
            let filter = || argument(0, SeccompCmpOp::Eq, libc::SECCOMP_SET_MODE_FILTER.into());
            let flags = |flags: c_ulong| argument(1, SeccompCmpOp::Eq, flags);
            vec![
                all([filter()?, flags(0)?])?,
                all([filter()?, flags(libc::SECCOMP_FILTER_FLAG_TSYNC)?])?,
            ]
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_arch_prctl => each(0, &ARCH)?,
        _ => return Ok(None),
    }))
}

const CODE: u64 = (libc::PROT_WRITE | libc::PROT_EXEC) as u64;

/// No mapping is writable and executable: an honest function that is overrun does not run what it
/// was sent. (No JIT compilers, for now.) And none is executable that others can write: what is in
/// a region is data.
fn mappings() -> Result<Vec<SeccompRule>, BackendError> {
    let sort = |flags: i32, is: i32| masked(3, MAPPINGS_REFUSED | flags, is);
    let protection = |is: i32| argument(2, SeccompCmpOp::MaskedEq(CODE), is as u64);
    Ok(vec![
        all([protection(0)?, sort(0, 0)?])?,
        all([protection(libc::PROT_WRITE)?, sort(0, 0)?])?,
        all([protection(libc::PROT_EXEC)?, sort(libc::MAP_TYPE, libc::MAP_PRIVATE)?])?,
    ])
}

/// A rule that all its conditions must meet.
fn all<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into())
}

/// A rule for each value that an argument may have.
fn each(index: u8, values: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    values
        .iter()
        .map(|value| {
            // The kernel takes these as int: its upper half is not looked at.
            let (int, value) = (SeccompCmpArgLen::Dword, u64::from(value.unsigned_abs()));
            all([SeccompCondition::new(index, int, SeccompCmpOp::Eq, value)?])
        })
        .collect()
}

/// That an argument, an int, has of these bits exactly those.
fn masked(index: u8, bits: i32, set: i32) -> Result<SeccompCondition, BackendError> {
    let (bits, set) = (u64::from(bits.cast_unsigned()), u64::from(set.cast_unsigned()));
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), set)
}

fn argument(
    index: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Qword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_compile_and_fit_the_kernel_s_limit() {
        for program in programs(true).unwrap() {
            assert!(!program.is_empty() && program.len() < 4096, "{}", program.len());
        }
    }

    #[test]
    fn every_bound_call_has_bounds() {
        let rules = allowed(true).unwrap();
        for (name, number) in calls::BOUND.iter().chain(calls::BOUND_OF_MACHINE) {
            let is_absent = *number == libc::SYS_clone3;
            assert!(rules.get(number).is_some_and(|rule| is_absent || !rule.is_empty()), "{name}");
        }
        assert_eq!(rules.len(), allowed_calls().count(), "a call twice");
    }

    /// SECURITY.md says of each call what it can do and what prevents that; neither list grows
    /// alone.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_table_of_calls_is_the_list() {
        let text = include_str!("../../../../SECURITY.md");
        let (_, table) = text.split_once("### System calls that a function may make").unwrap();
        let rows = table.split("\n## ").next().unwrap().lines();
        let mut told: Vec<&str> = rows
            .filter_map(|row| row.strip_prefix("| `")?.split_once("` | "))
            .map(|(name, rest)| {
                let (can, prevents) = rest.split_once(" | ").expect("three columns");
                assert!(can.len() > 2 && prevents.len() > 8, "{name} says nothing");
                name
            })
            .collect();
        let mut allowed: Vec<&str> = allowed_calls().map(|(name, _)| name).collect();
        told.sort_unstable();
        allowed.sort_unstable();
        assert_eq!(told, allowed);
    }

    #[test]
    fn what_reaches_others_is_not_on_the_list() {
        let rules = allowed(false).unwrap();
        for call in [
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_ptrace,
            libc::SYS_kill,
            libc::SYS_tgkill,
            libc::SYS_process_vm_readv,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_memfd_create,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_keyctl,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_setuid,
            libc::SYS_ftruncate,
            libc::SYS_fallocate,
            libc::SYS_execveat,
            libc::SYS_sched_setaffinity,
            libc::SYS_sendmsg,
            libc::SYS_shutdown,
            libc::SYS_flock,
            libc::SYS_splice,
            libc::SYS_epoll_ctl,
            libc::SYS_msync,
        ] {
            assert!(!rules.contains_key(&call), "{call}");
        }
        // Of a descriptor of its own alone.
        assert_eq!(rules[&libc::SYS_ioctl], each(1, &[libc::FIOCLEX as i32]).unwrap());
    }
}
