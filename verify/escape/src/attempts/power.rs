//! Rights and limits.

use super::attempt::{
    Attempt, forbidden, prctl, process, raise_limit, room, seccomp_listener, sys,
};
use crate::call::address;

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    forbidden("rights", "become root", |_| sys(libc::SYS_setuid, &[0])),
    forbidden("rights", "become another", |_| sys(libc::SYS_setresuid, &[1000, 1000, 1000])),
    forbidden("rights", "become root's group", |_| sys(libc::SYS_setgid, &[0])),
    forbidden("rights", "join groups", |_| sys(libc::SYS_setgroups, &[1, address(&0_u32)])),
    forbidden("rights", "take capabilities", |_| {
        sys(libc::SYS_capset, &[address(&[0x2008_0522_u32, 0]), address(&[u32::MAX; 6])])
    }),
    forbidden("rights", "ambient capabilities", |_| prctl(libc::PR_CAP_AMBIENT, 2)),
    forbidden("rights", "a user namespace", |_| {
        sys(libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize])
    }),
    forbidden("rights", "a user namespace by clone", |_| {
        process(libc::SYS_clone, libc::CLONE_NEWUSER)
    }),
    forbidden("rights", "another's namespace", |prey| {
        sys(libc::SYS_setns, &[prey.region as usize, 0])
    }),
    forbidden("rights", "a listener to its filter", |_| seccomp_listener()),
    forbidden("rights", "no more filter", |_| prctl(libc::PR_SET_SECCOMP, 0)),
    forbidden("limits", "more descriptors", |_| raise_limit(libc::RLIMIT_NOFILE)),
    forbidden("limits", "more memory", |_| raise_limit(libc::RLIMIT_AS)),
    forbidden("limits", "more threads", |_| raise_limit(libc::RLIMIT_NPROC)),
    forbidden("limits", "the host's limits", |prey| {
        sys(libc::SYS_prlimit64, &[prey.host, 7, 0, room()])
    }),
    forbidden("limits", "other CPUs", |_| {
        sys(libc::SYS_sched_setaffinity, &[0, 8, address(&u64::MAX)])
    }),
    forbidden("limits", "real-time priority", |_| {
        sys(libc::SYS_sched_setscheduler, &[0, libc::SCHED_FIFO as usize, address(&1_i32)])
    }),
    forbidden("limits", "a better priority", |_| {
        sys(libc::SYS_setpriority, &[0, 0, usize::MAX - 19])
    }),
];
