//! What an attempt is, and what attempts are made of.

use std::ffi::CStr;
use std::fs;
use std::io::Error;

use crate::call::{address, call};

/// What an attempt is aimed at.
pub struct Prey {
    /// A process outside.
    pub host: usize,
    /// Another function's process, as its number is outside.
    pub neighbour: usize,
    /// Its own process, as its number is outside.
    pub outside: usize,
    /// Its own region (sealed).
    pub region: i32,
    /// A region that it may only read.
    pub read_only: i32,
}

impl Prey {
    /// Outside a sandbox: this process itself.
    pub fn own() -> Prey {
        let own = std::process::id() as usize;
        let region = call(libc::SYS_memfd_create, &[at(c"own"), 0]).map_or(-1, |fd| fd as i32);
        let _ = call(libc::SYS_ftruncate, &[region as usize, 8192]);
        Prey { host: own, neighbour: own, outside: own, region, read_only: -1 }
    }
}

/// Something tried.
pub struct Attempt {
    /// What it is about.
    pub group: &'static str,
    /// What is tried.
    pub name: &'static str,
    /// Outside a sandbox it works, and does no harm: so that its failure inside says something.
    pub harmless: bool,
    /// Tries it: the error's number.
    pub run: fn(&Prey) -> Result<(), i32>,
}

pub(super) type Run = fn(&Prey) -> Result<(), i32>;

pub(super) const fn forbidden(group: &'static str, name: &'static str, run: Run) -> Attempt {
    Attempt { group, name, harmless: false, run }
}

pub(super) const fn harmless(group: &'static str, name: &'static str, run: Run) -> Attempt {
    Attempt { group, name, harmless: true, run }
}

pub(super) fn number(error: &Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

pub(super) fn read(path: &str) -> Result<(), i32> {
    fs::read(path).map(drop).map_err(|error| number(&error))
}

pub(super) fn list(path: &str) -> Result<(), i32> {
    fs::read_dir(path).map(drop).map_err(|error| number(&error))
}

pub(super) fn write(path: &str) -> Result<(), i32> {
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.map(drop).map_err(|error| number(&error))
}

/// A call with numbers and addresses only.
pub(super) fn sys(number: libc::c_long, args: &[usize]) -> Result<(), i32> {
    call(number, args).map(drop)
}

pub(super) fn socket(family: i32, sort: i32) -> Result<(), i32> {
    sys(libc::SYS_socket, &[family as usize, sort as usize])
}

pub(super) fn execute(program: &CStr) -> Result<(), i32> {
    let argv = [program.as_ptr().addr(), 0];
    sys(libc::SYS_execve, &[program.as_ptr().addr(), address(&argv), address(&0_usize)])
}

pub(super) fn at(path: &CStr) -> usize {
    path.as_ptr().addr()
}

/// The address of zeroes that may be written.
pub(super) fn room() -> usize {
    Box::leak(Box::new([0_u64; 32])).as_ptr().addr()
}

/// An address of the kernel's.
pub(super) const KERNEL: usize = 0xffff_8000_0000_0000;

/// Nothing is as good as an error.
pub(super) fn something(result: Result<usize, i32>) -> Result<(), i32> {
    if result? == 0 { Err(libc::ENODATA) } else { Ok(()) }
}

/// Whether a call says this number.
pub(super) fn number_is(number: libc::c_long, wanted: usize) -> Result<(), i32> {
    if call(number, &[])? == wanted { Ok(()) } else { Err(libc::ESRCH) }
}

/// Makes descriptors until that is refused; more than a thousand is no limit.
pub(super) fn until_refused(mut make: impl FnMut() -> Result<usize, i32>) -> Result<(), i32> {
    let mut made = Vec::new();
    let error = loop {
        match make() {
            Ok(_) if made.len() > 1000 => break None,
            Ok(fd) => made.push(fd),
            Err(error) => break Some(error),
        }
    };
    for fd in made {
        let _ = call(libc::SYS_close, &[fd]);
    }
    error.map_or(Ok(()), Err)
}

/// A process: the child ends at once.
pub(super) fn process(number: libc::c_long, flags: i32) -> Result<(), i32> {
    match call(number, &[flags as usize | libc::SIGCHLD as usize])? {
        0 => sys(libc::SYS_exit_group, &[0]),
        _ => Ok(()),
    }
}

pub(super) fn process_by_clone3() -> Result<(), i32> {
    let args = [0, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
    match call(libc::SYS_clone3, &[address(&args), size_of_val(&args)])? {
        0 => sys(libc::SYS_exit_group, &[0]),
        _ => Ok(()),
    }
}

pub(super) fn map(fd: i32, protection: i32, flags: i32) -> Result<(), i32> {
    sys(libc::SYS_mmap, &[0, 4096, protection as usize, flags as usize, fd as usize, 0])
}

/// Threads until there is no more; more than a hundred is no limit.
pub(super) fn threads() -> Result<(), i32> {
    let mut waiting = Vec::new();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let stopped = std::sync::Arc::new(std::sync::Mutex::new(stopped));
    let error = loop {
        if waiting.len() > 100 {
            break None;
        }
        let stopped = stopped.clone();
        let wait = move || drop(stopped.lock().map(|end| end.recv()));
        match std::thread::Builder::new().stack_size(64 << 10).spawn(wait) {
            Ok(thread) => waiting.push(thread),
            Err(error) => break Some(number(&error)),
        }
    };
    drop(stop);
    waiting.into_iter().for_each(|thread| drop(thread.join()));
    error.map_or(Ok(()), Err)
}

/// Descriptors that it was not given: all but the standard ones, the socket and the two regions.
pub(super) fn other_descriptors(prey: &Prey) -> Result<(), i32> {
    for fd in 4..4096 {
        let is_given = fd == prey.region || fd == prey.read_only;
        if !is_given && call(libc::SYS_fcntl, &[fd as usize, libc::F_GETFD as usize]).is_ok() {
            return Ok(());
        }
    }
    Err(libc::EBADF)
}

pub(super) fn signal(number: libc::c_long, process: usize) -> Result<(), i32> {
    sys(number, &[process, 0])
}

/// Reads 8 bytes of a process by its number.
pub(super) fn read_memory(process: usize) -> Result<(), i32> {
    let mut word = 0_u64;
    let local = [(&raw mut word).addr(), 8];
    let remote = [address(&word), 8];
    sys(libc::SYS_process_vm_readv, &[process, address(&local), 1, address(&remote), 1])
}

/// Writes nothing new over 8 bytes of a process by its number.
pub(super) fn write_memory(process: usize) -> Result<(), i32> {
    let local = [room(), 8];
    let remote = [room(), 8];
    sys(libc::SYS_process_vm_writev, &[process, address(&local), 1, address(&remote), 1])
}

pub(super) fn seccomp_listener() -> Result<(), i32> {
    let allow = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let program = libc::sock_fprog { len: 1, filter: (&raw const allow).cast_mut() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as usize;
    sys(libc::SYS_seccomp, &[libc::SECCOMP_SET_MODE_FILTER as usize, flags, address(&program)])
}

pub(super) fn raise_limit(resource: u32) -> Result<(), i32> {
    let most = [u64::MAX, u64::MAX];
    sys(libc::SYS_prlimit64, &[0, resource as usize, address(&most), 0])
}

pub(super) fn prctl(option: i32, value: usize) -> Result<(), i32> {
    sys(libc::SYS_prctl, &[option as usize, value])
}

pub(super) const INET: i32 = libc::AF_INET;
pub(super) const STREAM: i32 = libc::SOCK_STREAM;
pub(super) const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
