//! Its own region, memory and program.

use super::attempt::{Attempt, RW, at, execute, forbidden, harmless, map, sys, write};
use crate::call::address;

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    forbidden("region", "grow it", |prey| {
        sys(libc::SYS_ftruncate, &[prey.region as usize, 1 << 30])
    }),
    forbidden("region", "shrink it", |prey| sys(libc::SYS_ftruncate, &[prey.region as usize, 0])),
    forbidden("region", "punch a hole", |prey| {
        sys(libc::SYS_fallocate, &[prey.region as usize, 3, 0, 4096])
    }),
    forbidden("region", "extend it by fallocate", |prey| {
        sys(libc::SYS_fallocate, &[prey.region as usize, 0, 0, 1 << 30])
    }),
    forbidden("region", "write past its end", |prey| {
        sys(libc::SYS_pwrite64, &[prey.region as usize, at(c"x"), 1, 1 << 30])
    }),
    forbidden("region", "seal it against writing", |prey| {
        sys(
            libc::SYS_fcntl,
            &[prey.region as usize, libc::F_ADD_SEALS as usize, libc::F_SEAL_FUTURE_WRITE as usize],
        )
    }),
    forbidden("region", "map what it may only read, to write", |prey| {
        map(prey.read_only, RW, libc::MAP_SHARED)
    }),
    forbidden("region", "write what it may only read", |prey| {
        sys(libc::SYS_write, &[prey.read_only as usize, at(c"x"), 1])
    }),
    forbidden("region", "reopen it by /proc", |prey| {
        write(&format!("/proc/self/fd/{}", prey.read_only))
    }),
    harmless("memory", "writable code", |_| {
        map(-1, RW | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
    }),
    forbidden("memory", "make its stack executable", |prey| {
        sys(libc::SYS_mprotect, &[address(prey) & !4095, 4096, (RW | libc::PROT_EXEC) as usize])
    }),
    harmless("memory", "64 GB", |_| {
        sys(
            libc::SYS_mmap,
            &[
                0,
                64 << 30,
                libc::PROT_READ as usize,
                (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize,
                usize::MAX,
                0,
            ],
        )
    }),
    harmless("memory", "a memory file", |_| sys(libc::SYS_memfd_create, &[at(c"x"), 0])),
    forbidden("memory", "lock all of it", |_| sys(libc::SYS_mlockall, &[1])),
    forbidden("memory", "secret memory", |_| sys(libc::SYS_memfd_secret, &[0])),
    forbidden("programs", "/bin/sh", |_| execute(c"/bin/sh")),
    forbidden("programs", "a library", |_| execute(c"/lib/x86_64-linux-gnu/libc.so.6")),
    forbidden("programs", "its region", |prey| {
        sys(
            libc::SYS_execveat,
            &[prey.region as usize, at(c""), 0, 0, libc::AT_EMPTY_PATH as usize],
        )
    }),
];
