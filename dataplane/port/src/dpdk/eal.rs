//! The environment abstraction layer (EAL): started once, for as long as the process lives.

use super::arguments::{self, Host};
use super::mbufs::Mbufs;
use super::messages::{log, reasons, wrong};
use super::sys::{self, TextBuffer};
use crate::error::PortError;
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use thruway_packet::Frames;

/// What runs, once it does.
pub(super) struct Eal {
    /// The user's arguments.
    arguments: Vec<String>,
    pub(super) mbufs: Mbufs,
    /// How it was started, for the user.
    pub(super) about: String,
}

static EAL: OnceLock<Eal> = OnceLock::new();
/// Why it cannot be started in this process any more.
static FAILED: Mutex<Option<String>> = Mutex::new(None);
/// Ports are opened, asked and closed one at a time; DPDK wants that.
static CONTROL: Mutex<()> = Mutex::new(());

/// Ports' own lock.
pub(super) fn control() -> MutexGuard<'static, ()> {
    CONTROL.lock()
}

/// What runs, if it does.
pub(super) fn running() -> Option<&'static Eal> {
    EAL.get()
}

/// Starts the EAL with these arguments, besides which come some of our own; or finds that it runs
/// with them, or that nothing is asked of it.
///
/// # Errors
/// It runs with other arguments, or refuses these; there is no memory for it.
pub(super) fn start(given: &[String]) -> Result<&'static Eal, PortError> {
    let mut failed = FAILED.lock();
    if let Some(eal) = EAL.get() {
        if !given.is_empty() && eal.arguments != given {
            return Err(wrong(format!(
                "DPDK runs in this process with the arguments {}, which count for as long as it \
                 lives; they cannot become {}: end the program and start it anew",
                joined(&eal.arguments),
                joined(given)
            )));
        }
        return Ok(eal);
    }
    if let Some(why) = &*failed {
        return Err(wrong(format!("DPDK failed to start before, and can be started once: {why}")));
    }
    let host = host();
    let all = arguments::complete(given, host);
    let result = initialize(&all, arguments::shows_log(given)).and_then(|()| {
        let mbufs = Mbufs::make(Frames::small())?;
        Ok(Eal { arguments: given.to_vec(), mbufs, about: about(given, host) })
    });
    match result {
        Ok(eal) => Ok(EAL.get_or_init(|| eal)),
        Err(error) => {
            *failed = Some(error.to_string());
            Err(error)
        }
    }
}

fn joined(arguments: &[String]) -> String {
    if arguments.is_empty() { "(none)".to_owned() } else { format!("'{}'", arguments.join(" ")) }
}

fn about(given: &[String], host: Host) -> String {
    let chosen = arguments::complete(given, host);
    let memory = match (given.is_empty() || chosen.iter().any(|a| a == "--no-huge"), host) {
        (true, Host { has_huge_pages: false, .. }) => {
            ", without huge pages (none are free; thruway doctor says how to get some)"
        }
        _ => "",
    };
    format!("{}{memory}", version())
}

/// DPDK's version, as it says it: "DPDK 22.11.11".
pub(super) fn version() -> String {
    // JUSTIFICATION: a function of the shim.
    // SAFETY: it has no preconditions.
    let text = unsafe { sys::tw_version() };
    // JUSTIFICATION: a string of C.
    // SAFETY: the version is a constant string of the library.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn host() -> Host {
    let cpus = rustix::thread::sched_getaffinity(None).ok();
    let cpu = cpus.and_then(|cpus| (0..1024).find(|&cpu| cpus.is_set(cpu))).unwrap_or(0);
    let pools = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let free = |pool: std::fs::DirEntry| {
        let text = std::fs::read_to_string(pool.path().join("free_hugepages")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    Host { cpu, has_huge_pages: pools.filter_map(free).any(|free| free > 0) }
}

/// Starts it in a thread of its own: the EAL binds its caller to a processor.
fn initialize(arguments: &[String], show: bool) -> Result<(), PortError> {
    let strings: Result<Vec<CString>, _> =
        arguments.iter().map(|argument| CString::new(argument.as_str())).collect();
    let strings = strings.map_err(|_| wrong("an argument of DPDK contains a NUL"))?;
    let had_directory = std::path::Path::new(RUN_DIR).exists();
    let started = std::thread::scope(|scope| scope.spawn(|| call(strings, show)).join());
    if !had_directory {
        tidy();
    }
    let (result, printed) = started.map_err(|_| wrong("DPDK's start panicked"))?;
    if result == 0 {
        return Ok(());
    }
    let lines = reasons(&printed, &log());
    let cause = std::io::Error::from_raw_os_error(-result);
    let hint = match -result {
        libc::EINVAL => "; see the EAL's parameters in DPDK's guide for Linux",
        _ if -result == libc::ENOMEM || lines.contains("hugepage") => {
            "; free huge pages for it (thruway doctor says how), or give it --no-huge"
        }
        libc::EACCES | libc::EPERM => "; run as root",
        _ => "",
    };
    Err(wrong(format!("DPDK does not start with '{}': {lines}{cause}{hint}", arguments.join(" "))))
}

/// Where the EAL makes a directory even if no file of it is to be shared.
const RUN_DIR: &str = "/var/run/dpdk";

/// Removes the directories that the EAL made and put nothing into.
fn tidy() {
    for directory in ["/var/run/dpdk/rte", RUN_DIR] {
        // It stays if another process put files into it.
        let _ = std::fs::remove_dir(directory);
    }
}

fn call(strings: Vec<CString>, show: bool) -> (c_int, String) {
    // The EAL keeps pointers to some of them.
    let mut pointers: Vec<*mut c_char> = strings.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak();
    let mut room = TextBuffer::new();
    // JUSTIFICATION: functions of the shim.
    // SAFETY: it has no preconditions.
    unsafe { sys::tw_log_show(show.into()) };
    // SAFETY: the arguments are strings of C with a null pointer at their end, and live for ever;
    // the text has room.
    let result = unsafe { sys::tw_eal_start(count, pointers.as_mut_ptr(), room.text()) };
    (result, room.into_string())
}

/// A thread that DPDK knows: it has a cache of frames of its own. Without, every frame would go
/// through the pool by itself.
struct Known(Cell<bool>);

thread_local! {
    static KNOWN: Known = const { Known(Cell::new(false)) };
}

/// Makes this thread known to DPDK, where it is not.
#[inline]
pub(super) fn enter() {
    let _ = KNOWN.try_with(|known| {
        if !known.0.get() {
            register(known);
        }
    });
}

#[cold]
fn register(known: &Known) {
    // JUSTIFICATION: a function of the shim.
    // SAFETY: it has no preconditions. It fails where there are more threads than DPDK can count,
    // and then this one has no cache.
    let _ = unsafe { sys::tw_thread_register() };
    known.0.set(true);
}

/// Gives the frames that DPDK keeps for this thread back.
pub(super) fn flush() {
    let Some(eal) = EAL.get() else { return };
    if KNOWN.try_with(|known| known.0.get()).unwrap_or(true) {
        flush_pool(eal.mbufs.pool());
    }
}

fn flush_pool(pool: *mut c_void) {
    // JUSTIFICATION: a function of the shim.
    // SAFETY: the pool lives as long as the process; the cache is this thread's.
    unsafe { sys::tw_cache_flush(pool) };
}

impl Drop for Known {
    fn drop(&mut self) {
        if !self.0.get() {
            return;
        }
        if let Some(eal) = EAL.get() {
            flush_pool(eal.mbufs.pool());
        }
        // JUSTIFICATION: a function of the shim.
        // SAFETY: the thread was registered, or the call does nothing.
        unsafe { sys::tw_thread_unregister() };
    }
}
