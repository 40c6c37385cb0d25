//! What it can do to descriptors that it shares with its host.

use super::attempt::{
    Attempt, KERNEL, at, forbidden, harmless, room, something, sys, until_refused,
};
use crate::call::{address, call};

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    forbidden("fcntl", "clear O_NONBLOCK of its input", |_| unblock(0)),
    forbidden("fcntl", "clear O_NONBLOCK of its output", |_| unblock(1)),
    forbidden("fcntl", "clear O_NONBLOCK of its errors", |_| unblock(2)),
    forbidden("fcntl", "clear O_NONBLOCK of the control socket", |_| unblock(3)),
    harmless("fcntl", "clear O_NONBLOCK of its region", |prey| unblock(prey.region)),
    forbidden("fcntl", "clear O_NONBLOCK of what it may only read", |prey| unblock(prey.read_only)),
    forbidden("fcntl", "be signalled by the control socket", |_| {
        control(3, libc::F_SETFL, libc::O_ASYNC as usize)
    }),
    harmless("fcntl", "lock its region", |prey| lock(prey.region, libc::F_SETLK)),
    harmless("fcntl", "wait for a lock of its region", |prey| lock(prey.region, libc::F_SETLKW)),
    harmless("fcntl", "who locks its region", |prey| lock(prey.region, libc::F_GETLK)),
    harmless("fcntl", "lock its region's open file", |prey| lock(prey.region, F_OFD_SETLK)),
    harmless("fcntl", "wait for its region's open file", |prey| lock(prey.region, F_OFD_SETLK + 1)),
    harmless("fcntl", "who locks its region's open file", |prey| {
        lock(prey.region, F_OFD_SETLK - 1)
    }),
    forbidden("fcntl", "a lease of its region", |prey| {
        control(prey.region, libc::F_SETLEASE, libc::F_WRLCK as usize)
    }),
    harmless("fcntl", "whether its region is leased", |prey| {
        control(prey.region, libc::F_GETLEASE, 0)
    }),
    forbidden("fcntl", "notes of its root", |prey| control(prey.region, libc::F_NOTIFY, 2)),
    forbidden("fcntl", "own the control socket", |prey| control(3, libc::F_SETOWN, prey.host)),
    harmless("fcntl", "own its region", |prey| control(prey.region, libc::F_SETOWN, 0)),
    harmless("fcntl", "who owns its region", |prey| control(prey.region, libc::F_GETOWN, 0)),
    harmless("fcntl", "another signal for its region", |prey| {
        control(prey.region, F_SETSIG, libc::SIGUSR1 as usize)
    }),
    harmless("fcntl", "which signal its region sends", |prey| {
        control(prey.region, F_SETSIG + 1, 0)
    }),
    forbidden("fcntl", "a bigger pipe to its host", |_| control(1, libc::F_SETPIPE_SZ, 1 << 20)),
    forbidden("fcntl", "how big the pipe is", |_| control(1, libc::F_GETPIPE_SZ, 0)),
    harmless("fcntl", "a hint of its region's life", |prey| {
        control(prey.region, F_SET_RW_HINT, address(&2_u64))
    }),
    forbidden("read", "what it wrote itself", |_| sys(libc::SYS_read, &[1, room(), 8])),
    forbidden("read", "into the kernel", |prey| {
        sys(libc::SYS_read, &[prey.region as usize, KERNEL, 8])
    }),
    forbidden("write", "past its region's end", |prey| {
        sys(libc::SYS_lseek, &[prey.region as usize, 0, libc::SEEK_END as usize])?;
        sys(libc::SYS_write, &[prey.region as usize, at(c"x"), 1])
    }),
    forbidden("write", "out of the kernel", |_| sys(libc::SYS_write, &[1, KERNEL, 8])),
    forbidden("write", "a message of 16 MB", |_| flood(libc::SYS_write)),
    forbidden("readv", "into the kernel", |prey| vectors(libc::SYS_readv, prey.region)),
    forbidden("writev", "out of the kernel", |_| vectors(libc::SYS_writev, 1)),
    forbidden("writev", "more parts than there are", |_| {
        sys(libc::SYS_writev, &[1, room(), 1 << 20])
    }),
    forbidden("pread64", "past its region's end", |prey| {
        something(call(libc::SYS_pread64, &[prey.region as usize, room(), 8, 1 << 30]))
    }),
    forbidden("pread64", "before its region's beginning", |prey| {
        sys(libc::SYS_pread64, &[prey.region as usize, room(), 8, usize::MAX - 7])
    }),
    forbidden("close", "what it was not given", |_| {
        (100..4096).try_for_each(|fd| sys(libc::SYS_close, &[fd]))
    }),
    forbidden("lseek", "move what its host reads", |_| sys(libc::SYS_lseek, &[1, 0, 0])),
    forbidden("lseek", "before its region's beginning", |prey| {
        sys(libc::SYS_lseek, &[prey.region as usize, usize::MAX, 0])
    }),
    forbidden("fstat", "into the kernel", |_| sys(libc::SYS_fstat, &[1, KERNEL])),
    forbidden("dup", "without end", |_| until_refused(|| call(libc::SYS_dup, &[1]))),
    forbidden("dup3", "past its limit", |_| sys(libc::SYS_dup3, &[1, 1 << 20, 0])),
    #[cfg(target_arch = "x86_64")]
    forbidden("dup2", "past its limit", |_| sys(libc::SYS_dup2, &[1, 1 << 20])),
    forbidden("eventfd2", "without end", |_| until_refused(|| call(libc::SYS_eventfd2, &[0, 0]))),
    forbidden("ppoll", "more than it may have", |_| sys(libc::SYS_ppoll, &[room(), 1 << 20, 0, 0])),
    forbidden("pselect6", "what it was not given", |_| {
        sys(libc::SYS_pselect6, &[250, address(&[u64::MAX; 4]), 0, 0, address(&[0_u64; 2]), 0])
    }),
    #[cfg(target_arch = "x86_64")]
    forbidden("poll", "more than it may have", |_| sys(libc::SYS_poll, &[room(), 1 << 20, 0])),
    #[cfg(target_arch = "x86_64")]
    forbidden("select", "what it was not given", |_| {
        sys(libc::SYS_select, &[250, address(&[u64::MAX; 4]), 0, 0, address(&[0_u64; 2])])
    }),
    forbidden("recvfrom", "out of band", |_| {
        sys(libc::SYS_recvfrom, &[3, room(), 8, (libc::MSG_OOB | libc::MSG_DONTWAIT) as usize])
    }),
    forbidden("recvfrom", "of its host's errors", |_| {
        sys(libc::SYS_recvfrom, &[3, room(), 8, (libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) as usize])
    }),
    forbidden("recvmsg", "into the kernel", |_| {
        sys(libc::SYS_recvmsg, &[3, KERNEL, libc::MSG_DONTWAIT as usize])
    }),
    forbidden("sendto", "a message of 16 MB", |_| flood(libc::SYS_sendto)),
    forbidden("sendto", "out of band", |_| send(libc::MSG_OOB, 0)),
    forbidden("sendto", "a part of a message", |_| send(libc::MSG_MORE, 0)),
    forbidden("sendto", "without a copy", |_| send(libc::MSG_ZEROCOPY, 0)),
    forbidden("sendto", "and probe", |_| send(libc::MSG_CONFIRM, 0)),
    forbidden("sendto", "to another", |_| send(0, address(&[1_u16, 0x7800, 0x7978]))),
    harmless("descriptors", "send descriptors", |prey| rights(prey.region)),
    forbidden("descriptors", "send many messages at once", |_| {
        sys(libc::SYS_sendmmsg, &[3, KERNEL, 1, libc::MSG_DONTWAIT as usize])
    }),
    forbidden("descriptors", "receive many messages at once", |_| {
        sys(libc::SYS_recvmmsg, &[3, KERNEL, 1, libc::MSG_DONTWAIT as usize, 0])
    }),
    forbidden("descriptors", "shut the control socket for writing", |_| {
        sys(libc::SYS_shutdown, &[3, 5])
    }),
    forbidden("descriptors", "an option of the control socket", |_| {
        sys(libc::SYS_setsockopt, &[3, 1, libc::SO_SNDBUF as usize, address(&(1 << 30)), 4])
    }),
    forbidden("descriptors", "who is at the control socket", |_| {
        let len = address(&64_u32);
        sys(libc::SYS_getsockopt, &[3, 1, libc::SO_PEERCRED as usize, room(), len])
    }),
    forbidden("descriptors", "the control socket's name", |_| {
        sys(libc::SYS_getpeername, &[3, room(), address(&64_u32)])
    }),
    forbidden("descriptors", "bind the control socket", |_| {
        sys(libc::SYS_bind, &[3, address(&[1_u16, 0x7800, 0x7978]), 6])
    }),
    forbidden("descriptors", "listen on the control socket", |_| sys(libc::SYS_listen, &[3, 9])),
    forbidden("ioctl", "clear O_NONBLOCK by ioctl", |_| ioctl(3, libc::FIONBIO as usize)),
    forbidden("ioctl", "be signalled by ioctl", |_| ioctl(3, libc::FIOASYNC as usize)),
    forbidden("ioctl", "how much waits", |_| ioctl(3, libc::FIONREAD as usize)),
    harmless("descriptors", "lock its region by flock", |prey| {
        sys(libc::SYS_flock, &[prey.region as usize, libc::LOCK_EX as usize])
    }),
    harmless("descriptors", "wait for many", |_| sys(libc::SYS_epoll_create1, &[0])),
    forbidden("descriptors", "wait for the control socket with many", |_| {
        sys(libc::SYS_epoll_ctl, &[3, 1, 3, room()])
    }),
    forbidden("descriptors", "splice", |prey| {
        sys(libc::SYS_splice, &[prey.region as usize, room(), 1, 0, 8, 0])
    }),
    forbidden("descriptors", "tee", |_| sys(libc::SYS_tee, &[0, 1, 8, 0])),
    forbidden("descriptors", "vmsplice", |_| {
        sys(libc::SYS_vmsplice, &[1, address(&[room(), 8]), 1, 0])
    }),
    forbidden("descriptors", "sendfile", |prey| {
        sys(libc::SYS_sendfile, &[1, prey.region as usize, room(), 8])
    }),
    forbidden("descriptors", "copy_file_range", |prey| {
        let region = prey.region as usize;
        sys(libc::SYS_copy_file_range, &[region, room(), region, room(), 8, 0])
    }),
    harmless("descriptors", "signals as a descriptor", |_| {
        sys(libc::SYS_signalfd4, &[usize::MAX, room(), 8, 0])
    }),
    harmless("descriptors", "a timer as a descriptor", |_| sys(libc::SYS_timerfd_create, &[1, 0])),
    harmless("descriptors", "a pipe", |_| sys(libc::SYS_pipe2, &[room(), 0])),
    forbidden("descriptors", "close a range", |_| sys(libc::SYS_close_range, &[100, 200, 0])),
    harmless("descriptors", "another mode of its region", |prey| {
        sys(libc::SYS_fchmod, &[prey.region as usize, 0o600])
    }),
    forbidden("descriptors", "another owner of its region", |prey| {
        sys(libc::SYS_fchown, &[prey.region as usize, 0, 0])
    }),
    forbidden("descriptors", "a mark on its region", |prey| {
        sys(libc::SYS_fsetxattr, &[prey.region as usize, at(c"user.x"), at(c"x"), 1, 0])
    }),
    harmless("descriptors", "drop its region's pages", |prey| {
        sys(libc::SYS_fadvise64, &[prey.region as usize, 0, 0, libc::POSIX_FADV_DONTNEED as usize])
    }),
    harmless("descriptors", "write its region back", |prey| {
        sys(libc::SYS_fsync, &[prey.region as usize])
    }),
    forbidden("descriptors", "write everything back", |_| sys(libc::SYS_sync, &[])),
];

const F_OFD_SETLK: i32 = 37;
const F_SETSIG: i32 = 10;
const F_SET_RW_HINT: i32 = 1036;

fn control(fd: i32, command: i32, argument: usize) -> Result<(), i32> {
    sys(libc::SYS_fcntl, &[fd as usize, command as usize, argument])
}

fn ioctl(fd: i32, request: usize) -> Result<(), i32> {
    sys(libc::SYS_ioctl, &[fd as usize, request, room()])
}

/// Takes O_NONBLOCK off the open file, and so off everybody's descriptors of it.
fn unblock(fd: i32) -> Result<(), i32> {
    let flags = call(libc::SYS_fcntl, &[fd as usize, libc::F_GETFL as usize])?;
    control(fd, libc::F_SETFL, flags & !(libc::O_NONBLOCK as usize))
}

/// A read lock of the first byte, which blocks no other attempt.
fn lock(fd: i32, command: i32) -> Result<(), i32> {
    // JUSTIFICATION: plain data for a call.
    // SAFETY: numbers, of which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_len) = (libc::F_RDLCK as i16, 1);
    control(fd, command, address(&lock))
}

fn vectors(number: libc::c_long, fd: i32) -> Result<(), i32> {
    sys(number, &[fd as usize, address(&[KERNEL, 8]), 1])
}

fn send(flags: i32, to: usize) -> Result<(), i32> {
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    sys(libc::SYS_sendto, &[3, at(c"x"), 1, flags as usize, to, if to == 0 { 0 } else { 6 }])
}

/// One message for the control socket, of 16 MB.
fn flood(number: libc::c_long) -> Result<(), i32> {
    let bytes = vec![0_u8; 16 << 20];
    let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize;
    sys(number, &[3, bytes.as_ptr().addr(), bytes.len(), flags, 0, 0])
}

/// 250 copies of a descriptor in one message to itself, or to its host.
fn rights(fd: i32) -> Result<(), i32> {
    let mut ends = [3_i32; 2];
    // Outside of a sandbox there is no host.
    let kind = libc::SOCK_SEQPACKET as usize;
    let made =
        call(libc::SYS_socketpair, &[libc::AF_UNIX as usize, kind, 0, (&raw mut ends).addr()]);
    let to = if made.is_ok() { ends[0] } else { 3 };
    let fds = [fd; 250];
    let mut buffer = [0_u64; 130];
    (buffer[0], buffer[1]) = (16 + 1000, libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32);
    for (at, pair) in fds.chunks(2).enumerate() {
        let word = pair.iter().rev().fold(0, |word, fd| word << 32 | u64::from(*fd as u32));
        buffer[2 + at] = word;
    }
    let part = [at(c"x"), 1];
    let message = [0, 0, address(&part), 1, address(&buffer), 16 + 1000, 0];
    let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize;
    sys(libc::SYS_sendmsg, &[to as usize, address(&message), flags])
}
