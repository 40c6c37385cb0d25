//! The system calls that a function may make.
//!
//! An allow-list: what it lacks fails with EPERM. What a call may do to files is for the private
//! root and Landlock to say; here are the calls that a program needs to be loaded, to use its own
//! memory, threads, clock and signals, and to speak on the descriptors it was given. There is no
//! call that makes a socket, a process, a memory file, or reaches another process.

use libc::{c_long, c_ulong};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Allowed whatever their arguments are.
#[rustfmt::skip]
const CALLS: &[c_long] = &[
    // Descriptors that it has.
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64,
    libc::SYS_close, libc::SYS_lseek, libc::SYS_fstat, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_shutdown,
    libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1, libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait, libc::SYS_eventfd2,
    // Being loaded: which files there are is not decided here.
    libc::SYS_execve, libc::SYS_openat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_faccessat,
    libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_getcwd, libc::SYS_getdents64,
    // Its memory.
    libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk, libc::SYS_mlock,
    libc::SYS_munlock, libc::SYS_msync,
    // Its threads.
    libc::SYS_futex, libc::SYS_set_tid_address, libc::SYS_set_robust_list, libc::SYS_rseq,
    libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_gettid, libc::SYS_getcpu,
    libc::SYS_exit, libc::SYS_exit_group, libc::SYS_restart_syscall,
    // Its signals.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack,
    // Clocks.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_gettimeofday,
    // What it is, and chance.
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getegid, libc::SYS_uname, libc::SYS_getrandom, libc::SYS_getrusage,
];

/// Those that only older programs for this processor use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const CALLS_OF_MACHINE: &[c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait, libc::SYS_epoll_create, libc::SYS_time,
    libc::SYS_arch_prctl, libc::SYS_dup2, libc::SYS_getrlimit,
];
/// Those that only older programs for this processor use.
#[cfg(not(target_arch = "x86_64"))]
const CALLS_OF_MACHINE: &[c_long] = &[];

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

fn allowed(own_pids: bool) -> Result<Rules, BackendError> {
    let mut rules: Rules =
        CALLS.iter().chain(CALLS_OF_MACHINE).map(|call| (*call, Vec::new())).collect();
    let mut add = |call: c_long, alternatives: Vec<SeccompRule>| rules.insert(call, alternatives);
    // Answered with ENOSYS by the second filter.
    add(libc::SYS_clone3, Vec::new());
    let flags = SeccompCmpOp::MaskedEq(THREAD | NAMESPACES);
    add(libc::SYS_clone, vec![all([argument(0, flags, THREAD)?])?]);
    // No mapping is writable and executable, and none becomes executable later: an honest function
    // that is overrun does not run what it was sent. (No JIT compilers, for now.)
    let code = (libc::PROT_WRITE | libc::PROT_EXEC) as u64;
    let not_code = |protection: i32| -> Result<SeccompRule, BackendError> {
        all([argument(2, SeccompCmpOp::MaskedEq(code), protection as u64)?])
    };
    add(
        libc::SYS_mmap,
        vec![not_code(0)?, not_code(libc::PROT_WRITE)?, not_code(libc::PROT_EXEC)?],
    );
    add(libc::SYS_mprotect, vec![not_code(0)?, not_code(libc::PROT_WRITE)?]);
    // Reading its own limits, changing none.
    let own = argument(0, SeccompCmpOp::Eq, 0)?;
    add(libc::SYS_prlimit64, vec![all([own, argument(2, SeccompCmpOp::Eq, 0)?])?]);
    add(
        libc::SYS_fcntl,
        each(
            1,
            &[
                libc::F_GETFD,
                libc::F_SETFD,
                libc::F_GETFL,
                libc::F_SETFL,
                libc::F_DUPFD,
                libc::F_DUPFD_CLOEXEC,
                libc::F_GET_SEALS,
            ],
        )?,
    );
    add(libc::SYS_prctl, each(0, &[libc::PR_SET_NAME, libc::PR_GET_NAME])?);
    // Its abort. Without a namespace, process 1 is another.
    if own_pids {
        add(libc::SYS_tgkill, each(0, &[1])?);
    }
    // More filters, but no listener to them: mode SECCOMP_SET_MODE_FILTER, flags 0 or TSYNC.
    let filter = || argument(0, SeccompCmpOp::Eq, libc::SECCOMP_SET_MODE_FILTER.into());
    let flags = |flags: c_ulong| argument(1, SeccompCmpOp::Eq, flags);
    add(
        libc::SYS_seccomp,
        vec![
            all([filter()?, flags(0)?])?,
            all([filter()?, flags(libc::SECCOMP_FILTER_FLAG_TSYNC)?])?,
        ],
    );
    Ok(rules)
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
            libc::SYS_ioctl,
            libc::SYS_ftruncate,
            libc::SYS_fallocate,
            libc::SYS_execveat,
            libc::SYS_sched_setaffinity,
        ] {
            assert!(!rules.contains_key(&call), "{call}");
        }
    }
}
