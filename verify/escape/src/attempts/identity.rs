//! What it can learn and change of itself.

use super::attempt::{
    Attempt, KERNEL, forbidden, harmless, list, prctl, raise_limit, read, room, sys,
};
use super::attempt::{at, execute, number_is};
use crate::call::{address, call};

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    harmless("getpid", "its number outside", |prey| number_is(libc::SYS_getpid, prey.outside)),
    forbidden("getppid", "its host's number", |prey| number_is(libc::SYS_getppid, prey.host)),
    forbidden("getuid", "be root", |_| number_is(libc::SYS_getuid, 0)),
    forbidden("geteuid", "be root", |_| number_is(libc::SYS_geteuid, 0)),
    forbidden("getgid", "be in root's group", |_| number_is(libc::SYS_getgid, 0)),
    forbidden("getegid", "be in root's group", |_| number_is(libc::SYS_getegid, 0)),
    forbidden("uname", "into the kernel", |_| sys(libc::SYS_uname, &[KERNEL])),
    forbidden("getrandom", "into the kernel", |_| sys(libc::SYS_getrandom, &[KERNEL, 8, 0])),
    forbidden("getrusage", "of its host", |prey| sys(libc::SYS_getrusage, &[prey.host, room()])),
    forbidden("execve", "/bin/sh", |_| execute(c"/bin/sh")),
    forbidden("execve", "nothing", |_| execute(c"")),
    harmless("openat", "open /etc/passwd", |_| read("/etc/passwd")),
    forbidden("openat", "a file without a name", |_| {
        let flags = (libc::O_TMPFILE | libc::O_RDWR) as usize;
        sys(libc::SYS_openat, &[libc::AT_FDCWD as usize, at(c"/"), flags, 0o600])
    }),
    harmless("newfstatat", "what /etc/passwd is", |_| {
        sys(libc::SYS_newfstatat, &[libc::AT_FDCWD as usize, at(c"/etc/passwd"), room(), 0])
    }),
    harmless("statx", "what /etc/passwd is", |_| {
        sys(libc::SYS_statx, &[libc::AT_FDCWD as usize, at(c"/etc/passwd"), 0, 1, room()])
    }),
    harmless("faccessat", "what /etc/passwd is", |_| {
        sys(libc::SYS_faccessat, &[libc::AT_FDCWD as usize, at(c"/etc/passwd"), 4])
    }),
    harmless("faccessat2", "what /etc/passwd is", |_| {
        sys(libc::SYS_faccessat2, &[libc::AT_FDCWD as usize, at(c"/etc/passwd"), 4, 0])
    }),
    harmless("readlinkat", "where its program is", |_| {
        sys(libc::SYS_readlinkat, &[libc::AT_FDCWD as usize, at(c"/proc/self/exe"), room(), 200])
    }),
    forbidden("getcwd", "a directory outside", |_| {
        let path = [0_u8; 64];
        call(libc::SYS_getcwd, &[address(&path), 64])?;
        if path.starts_with(b"/\0") { Err(libc::ENOENT) } else { Ok(()) }
    }),
    forbidden("getdents64", "list its region", |prey| {
        sys(libc::SYS_getdents64, &[prey.region as usize, room(), 200])
    }),
    harmless("getdents64", "list /usr", |_| list("/usr")),
    #[cfg(target_arch = "x86_64")]
    harmless("open", "open /etc/passwd", |_| sys(libc::SYS_open, &[at(c"/etc/passwd"), 0, 0])),
    #[cfg(target_arch = "x86_64")]
    harmless("stat", "what /etc/passwd is", |_| sys(libc::SYS_stat, &[at(c"/etc/passwd"), room()])),
    #[cfg(target_arch = "x86_64")]
    harmless("lstat", "what /etc/passwd is", |_| {
        sys(libc::SYS_lstat, &[at(c"/etc/passwd"), room()])
    }),
    #[cfg(target_arch = "x86_64")]
    harmless("access", "what /etc/passwd is", |_| sys(libc::SYS_access, &[at(c"/etc/passwd"), 4])),
    #[cfg(target_arch = "x86_64")]
    harmless("readlink", "where its program is", |_| {
        sys(libc::SYS_readlink, &[at(c"/proc/self/exe"), room(), 200])
    }),
    #[cfg(target_arch = "x86_64")]
    forbidden("getrlimit", "into the kernel", |_| {
        sys(libc::SYS_getrlimit, &[libc::RLIMIT_AS as usize, KERNEL])
    }),
    forbidden("prlimit64", "more locked memory", |_| raise_limit(libc::RLIMIT_MEMLOCK)),
    forbidden("prlimit64", "real-time priority", |_| raise_limit(libc::RLIMIT_RTPRIO)),
    forbidden("prlimit64", "a better priority", |_| raise_limit(libc::RLIMIT_NICE)),
    forbidden("prlimit64", "longer files", |_| raise_limit(libc::RLIMIT_FSIZE)),
    forbidden("prlimit64", "core dumps", |_| raise_limit(libc::RLIMIT_CORE)),
    forbidden("prlimit64", "more signals", |_| raise_limit(libc::RLIMIT_SIGPENDING)),
    forbidden("prlimit64", "message queues", |_| raise_limit(libc::RLIMIT_MSGQUEUE)),
    forbidden("prlimit64", "less than it has", |_| {
        sys(libc::SYS_prlimit64, &[0, libc::RLIMIT_STACK as usize, address(&[1_u64; 2]), 0])
    }),
    harmless("prctl", "not be dumped", |_| prctl(libc::PR_SET_DUMPABLE, 0)),
    forbidden("prctl", "be dumped", |_| prctl(libc::PR_SET_DUMPABLE, 2)),
    forbidden("prctl", "new privileges", |_| prctl(libc::PR_SET_NO_NEW_PRIVS, 0)),
    forbidden("prctl", "keep capabilities", |_| prctl(libc::PR_SET_KEEPCAPS, 1)),
    forbidden("prctl", "a capability", |_| prctl(libc::PR_CAPBSET_DROP, 64)),
    forbidden("prctl", "other security bits", |_| prctl(libc::PR_SET_SECUREBITS, 0)),
    harmless("prctl", "a slack of timers", |_| prctl(libc::PR_SET_TIMERSLACK, 1)),
    harmless("prctl", "no huge pages", |_| prctl(libc::PR_SET_THP_DISABLE, 0)),
    forbidden("prctl", "be traced by anybody", |_| prctl(libc::PR_SET_PTRACER, usize::MAX)),
    harmless("prctl", "be everybody's parent", |_| prctl(libc::PR_SET_CHILD_SUBREAPER, 1)),
    forbidden("prctl", "flush files for others", |_| prctl(PR_SET_IO_FLUSHER, 1)),
    forbidden("prctl", "share its core", |_| prctl(libc::PR_SCHED_CORE, 1)),
    harmless("prctl", "how it speculates", |_| prctl(libc::PR_GET_SPECULATION_CTRL, 0)),
    harmless("prctl", "no performance counters", |_| prctl(libc::PR_TASK_PERF_EVENTS_DISABLE, 0)),
    forbidden("prctl", "name its memory", |_| prctl(PR_SET_VMA, 0)),
    harmless("prctl", "how it dies of memory errors", |_| prctl(libc::PR_MCE_KILL_GET, 0)),
    forbidden("seccomp", "strict mode", |_| sys(libc::SYS_seccomp, &[0, 0, 0])),
    forbidden("seccomp", "a filter that speculates", |_| {
        sys(libc::SYS_seccomp, &[1, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW as usize, room()])
    }),
    forbidden("seccomp", "a filter that logs", |_| {
        sys(libc::SYS_seccomp, &[1, libc::SECCOMP_FILTER_FLAG_LOG as usize, room()])
    }),
    forbidden("seccomp", "an empty filter", |_| sys(libc::SYS_seccomp, &[1, 0, room()])),
    harmless("seccomp", "what notes are like", |_| {
        sys(libc::SYS_seccomp, &[libc::SECCOMP_GET_NOTIF_SIZES as usize, 0, room()])
    }),
    harmless("seccomp", "Landlock of its own", |_| {
        sys(libc::SYS_landlock_create_ruleset, &[0, 0, 1])
    }),
    #[cfg(target_arch = "x86_64")]
    harmless("arch_prctl", "whether it may ask the processor", |_| arch(0x1011, 0)),
    #[cfg(target_arch = "x86_64")]
    forbidden("arch_prctl", "larger registers", |_| arch(0x1023, 18)),
    #[cfg(target_arch = "x86_64")]
    forbidden("arch_prctl", "tags in addresses", |_| arch(0x4002, 6)),
    #[cfg(target_arch = "x86_64")]
    forbidden("arch_prctl", "a shadow stack", |_| arch(0x5001, 1)),
    #[cfg(target_arch = "x86_64")]
    forbidden("arch_prctl", "its thread pointer in the kernel", |_| arch(0x1002, KERNEL)),
    forbidden("rights", "another group, both ways", |_| sys(libc::SYS_setregid, &[0, 0])),
    forbidden("rights", "root for files", |_| match call(libc::SYS_setfsuid, &[0])? {
        0 => Ok(()),
        _ => Err(libc::EPERM),
    }),
    harmless("rights", "its capabilities", |_| {
        sys(libc::SYS_capget, &[address(&[0x2008_0522_u32, 0]), room()])
    }),
    forbidden("rights", "a session", |_| sys(libc::SYS_setsid, &[])),
    forbidden("rights", "another process's group", |prey| {
        sys(libc::SYS_setpgid, &[prey.host, prey.host])
    }),
    harmless("kernel", "how the machine does", |_| sys(libc::SYS_sysinfo, &[room()])),
    forbidden("kernel", "quotas", |_| sys(libc::SYS_quotactl, &[0, 0, 0, 0])),
    forbidden("kernel", "accounting", |_| sys(libc::SYS_acct, &[at(c"/")])),
    forbidden("kernel", "watch all files", |_| sys(libc::SYS_fanotify_init, &[0, 0])),
];

const PR_SET_IO_FLUSHER: i32 = 57;
const PR_SET_VMA: i32 = 0x5356_4d41;

#[cfg(target_arch = "x86_64")]
fn arch(code: usize, argument: usize) -> Result<(), i32> {
    sys(libc::SYS_arch_prctl, &[code, argument])
}
