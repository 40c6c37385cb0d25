//! What it can do with threads, locks, signals and clocks.

use super::attempt::{Attempt, KERNEL, forbidden, harmless, process, room, sys};
use crate::call::{address, call};

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    harmless("futex", "lock with priority in its region", |_| futex(libc::FUTEX_LOCK_PI)),
    forbidden("futex", "try a lock with priority", |_| futex(libc::FUTEX_TRYLOCK_PI)),
    forbidden("futex", "open a lock with priority", |_| futex(libc::FUTEX_UNLOCK_PI)),
    harmless("futex", "lock with priority by another clock", |_| futex(FUTEX_LOCK_PI2)),
    forbidden("futex", "wait to be moved with priority", |_| futex(libc::FUTEX_WAIT_REQUEUE_PI)),
    forbidden("futex", "move to a lock with priority", |_| futex(libc::FUTEX_CMP_REQUEUE_PI)),
    forbidden("futex", "a descriptor", |_| futex(libc::FUTEX_FD)),
    forbidden("futex", "wake at the kernel's addresses", |_| {
        sys(libc::SYS_futex, &[KERNEL, libc::FUTEX_WAKE as usize, 1])
    }),
    forbidden("futex", "change the kernel's memory", |_| {
        let both = libc::FUTEX_WAKE_OP as usize;
        sys(libc::SYS_futex, &[room(), both, 1, 1, KERNEL, 0])
    }),
    harmless("threads", "wait for many locks", |_| {
        let nothing = [0_u64, room() as u64, 2];
        match call(libc::SYS_futex_waitv, &[address(&[nothing; 1]), 1, 0, address(&[0_i64; 2]), 1])
        {
            Err(libc::ETIMEDOUT | libc::EAGAIN) => Ok(()),
            done => done.map(drop),
        }
    }),
    forbidden("threads", "the host's list of locks", |prey| {
        sys(libc::SYS_get_robust_list, &[prey.host, room(), room()])
    }),
    forbidden("clone", "a mount namespace", |_| process(libc::SYS_clone, libc::CLONE_NEWNS)),
    forbidden("clone", "a process namespace", |_| process(libc::SYS_clone, libc::CLONE_NEWPID)),
    forbidden("clone", "a network namespace", |_| process(libc::SYS_clone, libc::CLONE_NEWNET)),
    forbidden("clone", "an IPC namespace", |_| process(libc::SYS_clone, libc::CLONE_NEWIPC)),
    forbidden("clone", "a host name namespace", |_| process(libc::SYS_clone, libc::CLONE_NEWUTS)),
    forbidden("clone", "a control group namespace", |_| {
        process(libc::SYS_clone, libc::CLONE_NEWCGROUP)
    }),
    forbidden("clone", "a process with a descriptor", |_| {
        sys(libc::SYS_clone, &[(libc::CLONE_PIDFD | libc::SIGCHLD) as usize, 0, KERNEL])
    }),
    forbidden("clone", "a thread in a user namespace", |_| {
        let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
        sys(libc::SYS_clone, &[(thread | libc::CLONE_NEWUSER) as usize, 0])
    }),
    forbidden("clone3", "arguments too short", |_| sys(libc::SYS_clone3, &[room(), 8])),
    forbidden("set_tid_address", "its number outside", |prey| {
        own_number(call(libc::SYS_set_tid_address, &[room()]), prey.outside)
    }),
    forbidden("set_robust_list", "of another shape", |_| {
        sys(libc::SYS_set_robust_list, &[room(), 8])
    }),
    forbidden("rseq", "in the kernel", |_| sys(libc::SYS_rseq, &[KERNEL, 32, 0, 0])),
    forbidden("sched_yield", "yield, then run before all others", |_| {
        sys(libc::SYS_sched_yield, &[])?;
        sys(libc::SYS_sched_setscheduler, &[0, libc::SCHED_RR as usize, address(&1_i32)])
    }),
    harmless("sched_getaffinity", "where its host runs", |prey| {
        sys(libc::SYS_sched_getaffinity, &[prey.host, 128, room()])
    }),
    harmless("gettid", "its number outside", |prey| {
        own_number(call(libc::SYS_gettid, &[]), prey.outside)
    }),
    forbidden("getcpu", "into the kernel", |_| sys(libc::SYS_getcpu, &[KERNEL, 0, 0])),
    forbidden("restart_syscall", "a call that was not", |_| sys(libc::SYS_restart_syscall, &[])),
    forbidden("rt_sigaction", "catch SIGKILL", |_| {
        sys(libc::SYS_rt_sigaction, &[libc::SIGKILL as usize, room(), 0, 8])
    }),
    forbidden("rt_sigaction", "catch SIGSTOP", |_| {
        sys(libc::SYS_rt_sigaction, &[libc::SIGSTOP as usize, room(), 0, 8])
    }),
    forbidden("rt_sigprocmask", "block SIGKILL", |_| block(libc::SIGKILL)),
    forbidden("rt_sigprocmask", "block SIGSTOP", |_| block(libc::SIGSTOP)),
    forbidden("rt_sigtimedwait", "its host's signals", |_| {
        sys(libc::SYS_rt_sigtimedwait, &[address(&u64::MAX), 0, address(&[0_i64; 2]), 8])
    }),
    forbidden("sigaltstack", "one too small", |_| {
        sys(libc::SYS_sigaltstack, &[address(&[room(), 0, 8]), 0])
    }),
    forbidden("tgkill", "the host", |prey| sys(libc::SYS_tgkill, &[prey.host, prey.host, 0])),
    forbidden("tgkill", "the neighbour", |prey| {
        sys(libc::SYS_tgkill, &[prey.neighbour, prey.neighbour, 9])
    }),
    forbidden("tgkill", "any thread of process 2", |_| sys(libc::SYS_tgkill, &[2, 2, 0])),
    harmless("signals", "a thread by its number", |prey| sys(libc::SYS_tkill, &[prey.host, 0])),
    forbidden("signals", "send one with data", |prey| {
        sys(libc::SYS_rt_sigqueueinfo, &[prey.host, libc::SIGUSR1 as usize, room()])
    }),
    forbidden("signals", "send one with data to a thread", |prey| {
        sys(libc::SYS_rt_tgsigqueueinfo, &[prey.host, prey.host, libc::SIGUSR1 as usize, room()])
    }),
    forbidden("signals", "send one by a descriptor", |prey| {
        sys(libc::SYS_pidfd_send_signal, &[prey.region as usize, 9, 0, 0])
    }),
    forbidden("signals", "its own session's", |_| sys(libc::SYS_kill, &[0, 0])),
    harmless("clock_gettime", "its host's processor time", |prey| {
        sys(libc::SYS_clock_gettime, &[clock_of(prey.host), room()])
    }),
    harmless("clock_getres", "its host's clock", |prey| {
        sys(libc::SYS_clock_getres, &[clock_of(prey.host), room()])
    }),
    forbidden("clock_nanosleep", "until its host has worked", |prey| {
        sys(libc::SYS_clock_nanosleep, &[clock_of(prey.host), 0, address(&[0_i64, 1]), 0])
    }),
    forbidden("clock_nanosleep", "and wake the machine", |_| {
        sys(libc::SYS_clock_nanosleep, &[libc::CLOCK_REALTIME_ALARM as usize, 0, room(), 0])
    }),
    forbidden("nanosleep", "less than nothing", |_| {
        sys(libc::SYS_nanosleep, &[address(&[-1_i64; 2]), 0])
    }),
    forbidden("gettimeofday", "into the kernel", |_| sys(libc::SYS_gettimeofday, &[KERNEL, 0])),
    #[cfg(target_arch = "x86_64")]
    forbidden("time", "into the kernel", |_| sys(libc::SYS_time, &[KERNEL])),
    harmless("clocks", "a timer", |_| {
        sys(libc::SYS_timer_create, &[libc::CLOCK_MONOTONIC as usize, 0, room()])
    }),
    forbidden("clocks", "an interval timer", |_| {
        sys(libc::SYS_setitimer, &[libc::ITIMER_VIRTUAL as usize, room(), 0])
    }),
    forbidden("clocks", "adjust the clock", |_| {
        sys(libc::SYS_clock_adjtime, &[libc::CLOCK_REALTIME as usize, address(&[1_u64; 64])])
    }),
    forbidden("clocks", "set the time of day", |_| {
        sys(libc::SYS_settimeofday, &[address(&[-1_i64; 2]), 0])
    }),
    harmless("priorities", "a worse priority", |_| sys(libc::SYS_setpriority, &[0, 0, 0])),
    forbidden("priorities", "a better priority for its host", |prey| {
        sys(libc::SYS_setpriority, &[0, prey.host, usize::MAX - 19])
    }),
    forbidden("priorities", "its host's class", |prey| {
        sys(libc::SYS_sched_setscheduler, &[prey.host, libc::SCHED_IDLE as usize, address(&0_i32)])
    }),
    forbidden("priorities", "deadlines", |_| {
        let times = [48_u64 | 6 << 32, 0, 0, 1_000_000, 2_000_000, 2_000_000];
        sys(libc::SYS_sched_setattr, &[0, address(&times), 0])
    }),
    harmless("priorities", "for files", |_| sys(libc::SYS_ioprio_set, &[1, 0, 2 << 13 | 7])),
    forbidden("priorities", "of its host for files", |prey| {
        sys(libc::SYS_ioprio_set, &[1, prey.host, 3 << 13])
    }),
    forbidden("priorities", "other processors for its host", |prey| {
        sys(libc::SYS_sched_setaffinity, &[prey.host, 8, address(&1_u64)])
    }),
];

const FUTEX_LOCK_PI2: i32 = 13;

/// On a word that is 0: a lock that is free.
fn futex(operation: i32) -> Result<(), i32> {
    sys(libc::SYS_futex, &[room(), operation as usize, 0, address(&[0_i64; 2]), room(), 0])
}

/// Whether a number is the one outside.
fn own_number(answer: Result<usize, i32>, outside: usize) -> Result<(), i32> {
    if answer? == outside { Ok(()) } else { Err(libc::ESRCH) }
}

/// Whether a signal stays blocked.
fn block(signal: i32) -> Result<(), i32> {
    let (wanted, before, mut now) = (1_u64 << (signal - 1), 0_u64, 0_u64);
    let mask = |set: usize, old: usize| {
        sys(libc::SYS_rt_sigprocmask, &[libc::SIG_BLOCK as usize, set, old, 8])
    };
    mask(address(&wanted), address(&before))?;
    mask(0, (&raw mut now).addr())?;
    if now & wanted != 0 { Ok(()) } else { Err(libc::EINVAL) }
}

/// The number of a process's processor clock (`MAKE_PROCESS_CPUCLOCK`).
fn clock_of(process: usize) -> usize {
    !process << 3 | 2
}
