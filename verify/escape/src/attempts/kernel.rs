//! Calls that reach the kernel itself.

use super::attempt::{Attempt, at, forbidden, room, sys};
use crate::call::address;

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    forbidden("kernel", "bpf", |_| sys(libc::SYS_bpf, &[0, address(&[0_u64; 16]), 128])),
    forbidden("kernel", "io_uring", |_| sys(libc::SYS_io_uring_setup, &[1, room()])),
    forbidden("kernel", "asynchronous I/O", |_| sys(libc::SYS_io_setup, &[1, room()])),
    forbidden("kernel", "userfaultfd", |_| sys(libc::SYS_userfaultfd, &[0])),
    forbidden("kernel", "keyctl", |_| sys(libc::SYS_keyctl, &[0, usize::MAX - 2, 1])),
    forbidden("kernel", "add_key", |_| {
        sys(libc::SYS_add_key, &[at(c"user"), at(c"x"), at(c"x"), 1, usize::MAX - 2])
    }),
    forbidden("kernel", "performance counters", |_| {
        sys(libc::SYS_perf_event_open, &[address(&[0_u64; 16]), 0, usize::MAX, usize::MAX, 0])
    }),
    forbidden("kernel", "load a module", |_| sys(libc::SYS_init_module, &[0, 0, at(c"")])),
    forbidden("kernel", "load a kernel", |_| sys(libc::SYS_kexec_load, &[0, 0, 0, 0])),
    forbidden("kernel", "reboot", |_| sys(libc::SYS_reboot, &[0, 0, 0, 0])),
    forbidden("kernel", "read the log", |_| sys(libc::SYS_syslog, &[10, 0, 0])),
    forbidden("kernel", "set the clock", |_| {
        sys(libc::SYS_clock_settime, &[0, address(&[-1_i64; 2])])
    }),
    forbidden("kernel", "set the host's name", |_| sys(libc::SYS_sethostname, &[at(c"x"), 1])),
    forbidden("kernel", "swap", |_| sys(libc::SYS_swapon, &[at(c"/"), 0])),
    forbidden("kernel", "another personality", |_| sys(libc::SYS_personality, &[0x0040_0000])),
    forbidden("kernel", "terminal input", |_| {
        sys(libc::SYS_ioctl, &[0, libc::TIOCSTI as usize, at(c"x")])
    }),
    #[cfg(target_arch = "x86_64")]
    forbidden("kernel", "I/O ports", |_| sys(libc::SYS_iopl, &[3])),
    #[cfg(target_arch = "x86_64")]
    forbidden("kernel", "segments", |_| sys(libc::SYS_modify_ldt, &[1, address(&[0_u64; 2]), 16])),
    #[cfg(target_arch = "x86_64")]
    forbidden("kernel", "a call by its x32 number", |_| sys(0x4000_0000 | libc::SYS_getpid, &[])),
];
