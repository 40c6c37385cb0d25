//! Sockets, other processes, the neighbour.

use super::attempt::{
    Attempt, INET, STREAM, at, forbidden, harmless, list, other_descriptors, prctl, process,
    process_by_clone3, read, read_memory, room, signal, socket, sys, threads, write_memory,
};
use crate::call::address;

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    harmless("sockets", "TCP", |_| socket(INET, STREAM)),
    harmless("sockets", "UDP", |_| socket(INET, libc::SOCK_DGRAM)),
    harmless("sockets", "IPv6", |_| socket(libc::AF_INET6, STREAM)),
    harmless("sockets", "Unix", |_| socket(libc::AF_UNIX, STREAM)),
    harmless("sockets", "netlink", |_| socket(libc::AF_NETLINK, libc::SOCK_RAW)),
    forbidden("sockets", "packet", |_| socket(libc::AF_PACKET, libc::SOCK_RAW)),
    forbidden("sockets", "raw IP", |_| socket(INET, libc::SOCK_RAW)),
    forbidden("sockets", "vsock", |_| socket(libc::AF_VSOCK, STREAM)),
    forbidden("sockets", "AF_XDP", |_| socket(libc::AF_XDP, libc::SOCK_RAW)),
    harmless("sockets", "a pair", |_| {
        sys(libc::SYS_socketpair, &[libc::AF_UNIX as usize, STREAM as usize, 0, room()])
    }),
    forbidden("sockets", "connect the control socket elsewhere", |_| {
        sys(libc::SYS_connect, &[3, address(&libc::AF_UNIX), 4])
    }),
    forbidden("sockets", "accept on the control socket", |_| sys(libc::SYS_accept4, &[3, 0, 0, 0])),
    harmless("processes", "fork", |_| process(libc::SYS_clone, 0)),
    forbidden("processes", "fork by clone3", |_| process_by_clone3()),
    #[cfg(target_arch = "x86_64")]
    forbidden("processes", "vfork", |_| process(libc::SYS_clone, libc::CLONE_VFORK)),
    harmless("processes", "threads without end", |_| threads()),
    harmless("processes", "signal the host", |prey| signal(libc::SYS_kill, prey.host)),
    forbidden("processes", "signal the neighbour", |prey| signal(libc::SYS_kill, prey.neighbour)),
    forbidden("processes", "signal everybody", |_| signal(libc::SYS_kill, usize::MAX)),
    forbidden("processes", "signal a thread of the host", |prey| {
        sys(libc::SYS_tgkill, &[prey.host, prey.host, 0])
    }),
    forbidden("processes", "trace the host", |prey| {
        sys(libc::SYS_ptrace, &[libc::PTRACE_ATTACH as usize, prey.host])
    }),
    forbidden("processes", "be traced", |_| {
        sys(libc::SYS_ptrace, &[libc::PTRACE_TRACEME as usize])
    }),
    harmless("processes", "read the host's memory", |prey| read_memory(prey.host)),
    forbidden("processes", "read the neighbour's memory", |prey| read_memory(prey.neighbour)),
    forbidden("processes", "write the host's memory", |prey| write_memory(prey.host)),
    harmless("processes", "a descriptor of the host", |prey| {
        sys(libc::SYS_pidfd_open, &[prey.host])
    }),
    forbidden("processes", "a descriptor of process 1", |_| sys(libc::SYS_pidfd_open, &[1])),
    forbidden("processes", "take a descriptor of another", |_| sys(libc::SYS_pidfd_getfd, &[3, 0])),
    forbidden("processes", "compare with the host", |prey| {
        sys(libc::SYS_kcmp, &[prey.host, prey.host])
    }),
    forbidden("processes", "advise the host's memory", |prey| {
        sys(libc::SYS_process_madvise, &[prey.host, 0, 0, 4])
    }),
    forbidden("processes", "outlive its host", |_| prctl(libc::PR_SET_PDEATHSIG, 0)),
    forbidden("neighbour", "its descriptors in /proc", |prey| {
        list(&format!("/proc/{}/fd", prey.neighbour))
    }),
    forbidden("neighbour", "its memory in /proc", |prey| {
        read(&format!("/proc/{}/mem", prey.neighbour))
    }),
    forbidden("neighbour", "its root in /proc", |prey| {
        list(&format!("/proc/{}/root", prey.neighbour))
    }),
    forbidden("neighbour", "descriptors it was not given", other_descriptors),
    forbidden("neighbour", "System V memory", |_| sys(libc::SYS_shmget, &[0, 4096, 0o1666])),
    forbidden("neighbour", "a message queue", |_| {
        sys(libc::SYS_mq_open, &[at(c"x"), 0o102, 0o666, 0])
    }),
];
