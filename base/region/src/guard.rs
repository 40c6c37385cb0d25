//! Handling of SIGBUS: the kernel has no page for a region that others can write.
//!
//! A region's length is sealed and its sandboxed users have no call that takes pages away; but a
//! page may be lost to a memory error or an exhausted pool of huge pages, or where a sandbox is
//! relaxed. The thread that touches it must not end the process. The signal's handler puts fresh
//! memory of this process in place of the page and marks the region as damaged: its owner gives it
//! up.
//!
//! Faults elsewhere go to the handler that was there before.
//!
//! The handler allocates nothing and locks nothing: it reads a list of regions with entries that
//! are never freed, and makes one system call.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};
use thruway_sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Regions in one piece of the list.
const CHUNK_LEN: usize = 64;

/// One region's address range, while it is guarded.
#[derive(Debug)]
struct Entry {
    /// First address; 0 while the entry is free.
    start: AtomicUsize,
    len: AtomicUsize,
    /// Bytes of a page.
    unit: AtomicUsize,
    damaged: AtomicBool,
}

#[derive(Debug)]
struct Chunk {
    entries: [Entry; CHUNK_LEN],
    next: AtomicPtr<Chunk>,
}

static FIRST: Chunk = Chunk::new();

/// Held while an entry is taken or a chunk added; never by the handler.
static TAKING: Mutex<()> = Mutex::new(());

/// The previous action for SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

impl Chunk {
    const fn new() -> Chunk {
        Chunk { entries: [const { Entry::new() }; CHUNK_LEN], next: AtomicPtr::new(null_mut()) }
    }

    fn next(&self) -> Option<&'static Chunk> {
        // Acquire pairs with the Release in `take`: the chunk was made before it was linked.
        let next = self.next.load(Ordering::Acquire);
        // JUSTIFICATION: a list that a signal handler reads has no lock, and so raw pointers.
        // SAFETY: null, or a chunk that `take` leaked for this purpose: it lives for ever.
        unsafe { next.as_ref() }
    }
}

/// All chunks, the first included.
fn chunks() -> impl Iterator<Item = &'static Chunk> {
    std::iter::successors(Some(&FIRST), |chunk| chunk.next())
}

impl Entry {
    const fn new() -> Entry {
        Entry {
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            unit: AtomicUsize::new(0),
            damaged: AtomicBool::new(false),
        }
    }

    /// Whether the region contains an address, and the page of the address.
    fn page_of(&self, address: usize) -> Option<(usize, usize)> {
        // Acquire pairs with the Release in `Guard::new`: length and page size are the region's.
        let start = self.start.load(Ordering::Acquire);
        if start == 0 || address.wrapping_sub(start) >= self.len.load(Ordering::Relaxed) {
            return None;
        }
        let unit = self.unit.load(Ordering::Relaxed).max(1);
        // If the entry was given to another region meanwhile, it was not that of the address: a
        // region that is being touched stays.
        (self.start.load(Ordering::Relaxed) == start).then_some((address - address % unit, unit))
    }
}

/// A region's place in the list; free again on drop, which must come before the unmapping.
#[derive(Debug)]
pub(crate) struct Guard {
    entry: &'static Entry,
}

impl Guard {
    /// Guards mapped memory. `unit` is the size of its pages, a multiple of which it begins at.
    pub fn new(start: usize, len: usize, unit: usize) -> Guard {
        install();
        let taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = take();
        entry.damaged.store(false, Ordering::Relaxed);
        entry.len.store(len, Ordering::Relaxed);
        entry.unit.store(unit, Ordering::Relaxed);
        entry.start.store(start, Ordering::Release);
        drop(taking);
        Guard { entry }
    }

    /// Whether a page was lost.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.entry.damaged.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.entry.start.store(0, Ordering::Release);
    }
}

/// A free entry. `TAKING` is held.
fn take() -> &'static Entry {
    let is_free = |entry: &&Entry| entry.start.load(Ordering::Relaxed) == 0;
    if let Some(entry) = chunks().flat_map(|chunk| &chunk.entries).find(is_free) {
        return entry;
    }
    let chunk: &'static Chunk = Box::leak(Box::new(Chunk::new()));
    let last = chunks().last().unwrap_or(&FIRST);
    last.next.store((&raw const *chunk).cast_mut(), Ordering::Release);
    &chunk.entries[0]
}

/// Puts fresh memory where a page of a guarded region was lost. Whether it was one.
fn repair(address: usize) -> bool {
    for entry in chunks().flat_map(|chunk| &chunk.entries) {
        let Some((page, unit)) = entry.page_of(address) else { continue };
        entry.damaged.store(true, Ordering::Relaxed);
        let at = std::ptr::without_provenance_mut::<c_void>(page);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // JUSTIFICATION: the thread that faulted needs some memory there to continue.
        // SAFETY: the page belongs to a region that is mapped and shared with another process. This
        // crate never borrows its bytes: only copies race with the change.
        let made = unsafe { mmap_anonymous(at, unit, ProtFlags::READ | ProtFlags::WRITE, flags) };
        return made.is_ok();
    }
    false
}

/// Installs the handler, once.
fn install() {
    BEFORE.get_or_init(|| {
        // JUSTIFICATION: no safe call for a handler that learns the address.
        // SAFETY: plain data, of which zero is a value.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: only asks, and writes to the place it is given.
        unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) };
        before
    });
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
        // JUSTIFICATION: as above.
        // SAFETY: plain data, of which zero is a value: no flags, no signals blocked.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler does nothing that a signal handler may not: see the module. What
        // was there before is known already, so it can be passed on to from the first signal on.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) };
    });
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // JUSTIFICATION: a signal handler gets its arguments by pointer.
    // SAFETY: with SA_SIGINFO the kernel passes a valid one.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // A code above 0 is the kernel's own: then there is an address.
    if code > 0 && repair(address) {
        return;
    }
    pass_on(code, signal, info, context);
}

/// Runs the previous handler.
fn pass_on(code: c_int, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let handler = BEFORE.get().map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    let has_info = BEFORE.get().is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0);
    match handler {
        libc::SIG_IGN if code <= 0 => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // JUSTIFICATION: the default action, the end, is only the kernel's to carry out.
            // SAFETY: both calls may be made in a handler. What faulted faults again on return.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        handler if has_info => {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // JUSTIFICATION: sigaction(2) stores handlers as numbers.
            // SAFETY: with SA_SIGINFO the number is the address of such a function.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // JUSTIFICATION: as above.
            // SAFETY: without SA_SIGINFO it is the address of a function of the signal's number.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests;
