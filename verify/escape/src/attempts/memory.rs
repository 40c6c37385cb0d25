//! What it can do to memory that it shares with its host, and to the machine's.

use super::attempt::{Attempt, KERNEL, RW, at, forbidden, harmless, map, room, sys};
use crate::call::{address, call};

/// In the order in which they are tried.
pub const ALL: &[Attempt] = &[
    harmless("madvise", "MADV_REMOVE of its region", |prey| advise(prey.region, libc::MADV_REMOVE)),
    harmless("madvise", "MADV_COLD of its region", |prey| advise(prey.region, libc::MADV_COLD)),
    harmless("madvise", "MADV_PAGEOUT of its region", |prey| {
        advise(prey.region, libc::MADV_PAGEOUT)
    }),
    harmless("madvise", "MADV_WILLNEED of its region", |prey| {
        advise(prey.region, libc::MADV_WILLNEED)
    }),
    harmless("madvise", "MADV_RANDOM of its region", |prey| advise(prey.region, libc::MADV_RANDOM)),
    harmless("madvise", "MADV_SEQUENTIAL of its region", |prey| {
        advise(prey.region, libc::MADV_SEQUENTIAL)
    }),
    forbidden("madvise", "MADV_HUGEPAGE of its region", |prey| {
        advise(prey.region, libc::MADV_HUGEPAGE)
    }),
    forbidden("madvise", "MADV_COLLAPSE of its region", |prey| advise(prey.region, MADV_COLLAPSE)),
    harmless("madvise", "MADV_POPULATE_READ of its region", |prey| {
        advise(prey.region, libc::MADV_POPULATE_READ)
    }),
    harmless("madvise", "MADV_POPULATE_WRITE of its region", |prey| {
        advise(prey.region, libc::MADV_POPULATE_WRITE)
    }),
    forbidden("madvise", "MADV_HWPOISON of its region", |prey| {
        advise(prey.region, libc::MADV_HWPOISON)
    }),
    forbidden("madvise", "MADV_SOFT_OFFLINE of its region", |prey| {
        advise(prey.region, libc::MADV_SOFT_OFFLINE)
    }),
    forbidden("madvise", "MADV_DONTNEED_LOCKED of its region", |prey| {
        advise(prey.region, MADV_DONTNEED_LOCKED)
    }),
    harmless("madvise", "MADV_DONTFORK of its region", |prey| {
        advise(prey.region, libc::MADV_DONTFORK)
    }),
    harmless("madvise", "MADV_DOFORK of its region", |prey| advise(prey.region, libc::MADV_DOFORK)),
    harmless("madvise", "MADV_DODUMP of its region", |prey| advise(prey.region, libc::MADV_DODUMP)),
    harmless("madvise", "MADV_DONTDUMP of its region", |prey| {
        advise(prey.region, libc::MADV_DONTDUMP)
    }),
    forbidden("madvise", "MADV_FREE of its region", |prey| advise(prey.region, libc::MADV_FREE)),
    forbidden("madvise", "MADV_MERGEABLE of its own memory", |_| advise(-1, libc::MADV_MERGEABLE)),
    harmless("madvise", "MADV_WIPEONFORK of its own memory", |_| advise(-1, libc::MADV_WIPEONFORK)),
    forbidden("madvise", "the kernel's memory", |_| {
        sys(libc::SYS_madvise, &[KERNEL, 4096, libc::MADV_DONTNEED as usize])
    }),
    forbidden("mmap", "its region, to execute", |prey| {
        map(prey.region, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_SHARED)
    }),
    forbidden("mmap", "its region, to write and execute", |prey| {
        map(prey.region, RW | libc::PROT_EXEC, libc::MAP_SHARED)
    }),
    forbidden("mmap", "its region by another name, to execute", |prey| {
        map(prey.region, libc::PROT_EXEC, libc::MAP_SHARED_VALIDATE)
    }),
    harmless("mmap", "shared memory to execute", |_| {
        map(-1, libc::PROT_EXEC, libc::MAP_SHARED | libc::MAP_ANONYMOUS)
    }),
    forbidden("mmap", "huge pages of the machine", |_| huge(0)),
    forbidden("mmap", "huge pages of 1 GB", |_| huge(30 << libc::MAP_HUGE_SHIFT)),
    forbidden("mmap", "huge pages without reserve", |_| huge(libc::MAP_NORESERVE)),
    harmless("mmap", "memory that grows over others", |_| {
        map(-1, RW, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN)
    }),
    forbidden("mmap", "memory at the kernel's addresses", |_| fixed(KERNEL)),
    forbidden("mmap", "memory at address 0", |_| fixed(0)),
    forbidden("mmap", "its output", |_| map(1, libc::PROT_READ, libc::MAP_SHARED)),
    forbidden("mprotect", "its region, to execute", |prey| {
        let at = mapped(prey.region)?;
        sys(libc::SYS_mprotect, &[at, 4096, (libc::PROT_READ | libc::PROT_EXEC) as usize])
    }),
    forbidden("mprotect", "what it may only read, to write", |prey| {
        let read = libc::PROT_READ as usize;
        let at = call(
            libc::SYS_mmap,
            &[0, 4096, read, libc::MAP_SHARED as usize, prey.read_only as usize, 0],
        )?;
        sys(libc::SYS_mprotect, &[at, 4096, RW as usize])
    }),
    forbidden("mprotect", "the kernel's memory", |_| {
        sys(libc::SYS_mprotect, &[KERNEL, 4096, RW as usize])
    }),
    forbidden("munmap", "the kernel's memory", |_| sys(libc::SYS_munmap, &[KERNEL, 4096])),
    forbidden("mremap", "its region to 1 GB", |prey| {
        let at = mapped(prey.region)?;
        sys(libc::SYS_mremap, &[at, 4096, 1 << 30, libc::MREMAP_MAYMOVE as usize])
    }),
    forbidden("mremap", "its region to the kernel's addresses", |prey| {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        sys(libc::SYS_mremap, &[mapped(prey.region)?, 4096, 4096, flags as usize, KERNEL])
    }),
    forbidden("brk", "64 GB", |_| {
        let now = call(libc::SYS_brk, &[0])?;
        let then = call(libc::SYS_brk, &[now + (64 << 30)])?;
        if then == now { Err(libc::ENOMEM) } else { Ok(()) }
    }),
    forbidden("mlock", "more than it may", |_| {
        let bytes = vec![0_u8; 1 << 20];
        sys(libc::SYS_mlock, &[bytes.as_ptr().addr(), bytes.len()])
    }),
    forbidden("munlock", "the kernel's memory", |_| sys(libc::SYS_munlock, &[KERNEL, 4096])),
    harmless("memory", "lock on fault", |_| sys(libc::SYS_mlock2, &[room() & !4095, 4096, 1])),
    harmless("memory", "write its region back", |prey| {
        sys(libc::SYS_msync, &[mapped(prey.region)?, 4096, libc::MS_SYNC as usize])
    }),
    harmless("memory", "which of its region's pages there are", |prey| {
        sys(libc::SYS_mincore, &[mapped(prey.region)?, 4096, room()])
    }),
    forbidden("memory", "pages of its region in another order", |prey| {
        sys(libc::SYS_remap_file_pages, &[mapped(prey.region)?, 4096, 0, 1, 0])
    }),
    harmless("memory", "its region on another node", |prey| {
        sys(libc::SYS_mbind, &[mapped(prey.region)?, 4096, 0, 0, 0, 0])
    }),
    harmless("memory", "another policy", |_| sys(libc::SYS_set_mempolicy, &[0, 0, 0])),
    forbidden("memory", "move the host's pages", |prey| {
        sys(libc::SYS_move_pages, &[prey.host, 1, room(), 0, room(), 0])
    }),
    forbidden("memory", "move the host to another node", |prey| {
        sys(libc::SYS_migrate_pages, &[prey.host, 64, address(&1_u64), address(&1_u64)])
    }),
    forbidden("memory", "a key of memory", |_| sys(libc::SYS_pkey_alloc, &[0, 0])),
    forbidden("memory", "code by a key", |_| {
        let code = (RW | libc::PROT_EXEC) as usize;
        sys(libc::SYS_pkey_mprotect, &[room() & !4095, 4096, code, usize::MAX])
    }),
    harmless("memory", "interrupt all processors", |_| sys(libc::SYS_membarrier, &[1, 0, 0])),
    forbidden("memory", "give the host's memory back", |prey| {
        sys(libc::SYS_process_mrelease, &[prey.host, 0])
    }),
    forbidden("memory", "read ahead of its region", |prey| {
        sys(libc::SYS_readahead, &[prey.region as usize, 0, 4096])
    }),
    forbidden("memory", "its own memory's layout", |_| {
        sys(libc::SYS_prctl, &[libc::PR_SET_MM as usize, 6, at(c"x")])
    }),
];

const MADV_DONTNEED_LOCKED: i32 = 24;
const MADV_COLLAPSE: i32 = 25;

/// The region's first page, mapped anew; or a page of its own.
fn mapped(fd: i32) -> Result<usize, i32> {
    let own = if fd < 0 { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS } else { libc::MAP_SHARED };
    let at = call(libc::SYS_mmap, &[0, 4096, RW as usize, own as usize, fd as usize, 0])?;
    Ok(at)
}

fn advise(fd: i32, advice: i32) -> Result<(), i32> {
    sys(libc::SYS_madvise, &[mapped(fd)?, 4096, advice as usize])
}

fn huge(flags: i32) -> Result<(), i32> {
    map(-1, RW, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | flags)
}

fn fixed(at: usize) -> Result<(), i32> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as usize;
    sys(libc::SYS_mmap, &[at, 4096, RW as usize, flags, usize::MAX, 0])
}
