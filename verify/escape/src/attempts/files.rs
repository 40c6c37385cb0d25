//! Files and mounts.

use super::attempt::{Attempt, at, forbidden, harmless, list, read, sys, write};
use crate::call::address;

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    harmless("files", "read /etc/passwd", |_| read("/etc/passwd")),
    forbidden("files", "read /etc/shadow", |_| read("/etc/shadow")),
    harmless("files", "list /", |_| list("/")),
    harmless("files", "list /usr/lib", |_| list("/usr/lib")),
    harmless("files", "list /proc", |_| list("/proc")),
    harmless("files", "read /proc/self/maps", |_| read("/proc/self/maps")),
    harmless("files", "open /dev/null", |_| write("/dev/null")),
    forbidden("files", "open /dev/mem", |_| read("/dev/mem")),
    forbidden("files", "list /sys", |_| list("/sys")),
    forbidden("files", "make a file in /", |_| write("/made")),
    forbidden("files", "make a file in /tmp", |_| write("/tmp/thruway-escape")),
    forbidden("files", "make a file in /dev/shm", |_| write("/dev/shm/thruway-escape")),
    forbidden("files", "write its own program", |_| {
        write(&std::env::args().next().unwrap_or_default())
    }),
    forbidden("files", "make a directory", |_| {
        sys(libc::SYS_mkdirat, &[libc::AT_FDCWD as usize, at(c"/made"), 0o777])
    }),
    forbidden("files", "make a link", |_| {
        sys(libc::SYS_symlinkat, &[at(c"/etc"), libc::AT_FDCWD as usize, at(c"/made")])
    }),
    forbidden("files", "make a device", |_| {
        sys(libc::SYS_mknodat, &[libc::AT_FDCWD as usize, at(c"/made"), 0o020_666, 0x103])
    }),
    forbidden("files", "remove the loader", |_| {
        sys(libc::SYS_unlinkat, &[libc::AT_FDCWD as usize, at(c"/lib64/ld-linux-x86-64.so.2"), 0])
    }),
    forbidden("files", "open by handle", |_| {
        sys(libc::SYS_open_by_handle_at, &[libc::AT_FDCWD as usize, 0, 0])
    }),
    forbidden("files", "openat2", |_| {
        sys(libc::SYS_openat2, &[libc::AT_FDCWD as usize, at(c"/"), address(&[0_u64; 3]), 24])
    }),
    forbidden("files", "go up by chdir", |_| sys(libc::SYS_chdir, &[at(c"/..")])),
    forbidden("files", "watch files", |_| sys(libc::SYS_inotify_init1, &[0])),
    forbidden("mounts", "chroot", |_| sys(libc::SYS_chroot, &[at(c"/")])),
    forbidden("mounts", "mount a tmpfs", |_| {
        sys(libc::SYS_mount, &[at(c"x"), at(c"/"), at(c"tmpfs"), 0, 0])
    }),
    forbidden("mounts", "mount proc", |_| sys(libc::SYS_fsopen, &[at(c"proc"), 0])),
    forbidden("mounts", "unmount its root", |_| {
        sys(libc::SYS_umount2, &[at(c"/"), libc::MNT_DETACH as usize])
    }),
    forbidden("mounts", "pivot_root", |_| sys(libc::SYS_pivot_root, &[at(c"/"), at(c"/")])),
    forbidden("mounts", "copy a mount", |_| {
        sys(libc::SYS_open_tree, &[libc::AT_FDCWD as usize, at(c"/"), 1])
    }),
    forbidden("mounts", "make its root writable", |_| {
        sys(
            libc::SYS_mount_setattr,
            &[libc::AT_FDCWD as usize, at(c"/"), 0, address(&[0_u64, 1, 0, 0]), 32],
        )
    }),
];
