//! The list of system calls that a function may make.
//!
//! `SECURITY.md` says of each what it can do to what a function shares with its host, and what
//! prevents that; a test holds the two lists against each other.

use libc::c_long;

/// A call's name and number.
pub(super) type Call = (&'static str, c_long);

macro_rules! calls {
    ($($number:ident $name:literal),* $(,)?) => {
        &[$(($name, libc::$number)),*]
    };
}

/// Allowed whatever their arguments are.
#[rustfmt::skip]
pub(super) const FREE: &[Call] = calls![
    // Descriptors that it has.
    SYS_read "read", SYS_write "write", SYS_readv "readv", SYS_writev "writev",
    SYS_pread64 "pread64", SYS_close "close", SYS_lseek "lseek", SYS_fstat "fstat", SYS_dup "dup",
    SYS_dup3 "dup3", SYS_recvmsg "recvmsg", SYS_recvfrom "recvfrom", SYS_ppoll "ppoll",
    SYS_pselect6 "pselect6", SYS_eventfd2 "eventfd2",
    // Being loaded: which files there are is not decided here.
    SYS_execve "execve", SYS_openat "openat", SYS_newfstatat "newfstatat", SYS_statx "statx",
    SYS_faccessat "faccessat", SYS_faccessat2 "faccessat2", SYS_readlinkat "readlinkat",
    SYS_getcwd "getcwd", SYS_getdents64 "getdents64",
    // Its memory.
    SYS_munmap "munmap", SYS_mremap "mremap", SYS_brk "brk", SYS_mlock "mlock",
    SYS_munlock "munlock",
    // Its threads.
    SYS_set_tid_address "set_tid_address", SYS_set_robust_list "set_robust_list",
    SYS_rseq "rseq", SYS_sched_yield "sched_yield", SYS_sched_getaffinity "sched_getaffinity",
    SYS_gettid "gettid", SYS_getcpu "getcpu", SYS_exit "exit", SYS_exit_group "exit_group",
    SYS_restart_syscall "restart_syscall",
    // Its signals.
    SYS_rt_sigaction "rt_sigaction", SYS_rt_sigprocmask "rt_sigprocmask",
    SYS_rt_sigreturn "rt_sigreturn", SYS_rt_sigtimedwait "rt_sigtimedwait",
    SYS_sigaltstack "sigaltstack",
    // Clocks.
    SYS_clock_gettime "clock_gettime", SYS_clock_getres "clock_getres",
    SYS_clock_nanosleep "clock_nanosleep", SYS_nanosleep "nanosleep",
    SYS_gettimeofday "gettimeofday",
    // What it is, and chance.
    SYS_getpid "getpid", SYS_getppid "getppid", SYS_getuid "getuid", SYS_geteuid "geteuid",
    SYS_getgid "getgid", SYS_getegid "getegid", SYS_uname "uname", SYS_getrandom "getrandom",
    SYS_getrusage "getrusage",
];

/// Those that only older programs for this processor use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const FREE_OF_MACHINE: &[Call] = calls![
    SYS_open "open", SYS_stat "stat", SYS_lstat "lstat", SYS_access "access",
    SYS_readlink "readlink", SYS_poll "poll", SYS_select "select", SYS_time "time",
    SYS_dup2 "dup2", SYS_getrlimit "getrlimit",
];
/// Those that only older programs for this processor use.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const FREE_OF_MACHINE: &[Call] = &[];

/// Allowed with some arguments only: which, the filter says.
pub(super) const BOUND: &[Call] = calls![
    SYS_clone "clone",
    SYS_clone3 "clone3",
    SYS_mmap "mmap",
    SYS_mprotect "mprotect",
    SYS_madvise "madvise",
    SYS_futex "futex",
    SYS_sendto "sendto",
    SYS_fcntl "fcntl",
    SYS_ioctl "ioctl",
    SYS_prctl "prctl",
    SYS_prlimit64 "prlimit64",
    SYS_seccomp "seccomp",
    SYS_tgkill "tgkill",
];

/// Bound ones of this processor.
#[cfg(target_arch = "x86_64")]
pub(super) const BOUND_OF_MACHINE: &[Call] = calls![SYS_arch_prctl "arch_prctl"];
/// Bound ones of this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const BOUND_OF_MACHINE: &[Call] = &[];
