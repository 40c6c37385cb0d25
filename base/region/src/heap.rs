//! A process without memory: one line, and the end.
//!
//! The standard library's own exit path may look up the symbols of a backtrace, which takes memory
//! and locks: a process without memory may then never end.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Cursor, Write as _};

/// The system's allocator for a program that cannot use a failing allocation: it writes the error
/// and the remedy in one line, and the process ends at once with status 1.
///
/// Writes the line and ends the process by two system calls, without memory, locks or exit
/// handlers. To be a program's `#[global_allocator]`.
#[derive(Debug)]
pub struct Heap;

thread_local! {
    /// Whether this thread can do without the memory that it asks for.
    static FALLIBLE: Cell<bool> = const { Cell::new(false) };
}

/// Requests optional memory: within `ask`, a failure is an ordinary error (`try_reserve`), and not
/// the end of the process.
pub fn fallible<T>(ask: impl FnOnce() -> T) -> T {
    let before = FALLIBLE.replace(true);
    let result = ask();
    FALLIBLE.set(before);
    result
}

// JUSTIFICATION: only an allocator learns in time that memory is out.
// SAFETY: every call is the system's, with the caller's arguments; what it gives is given on.
unsafe impl GlobalAlloc for Heap {
    // JUSTIFICATION: the trait has it so.
    // SAFETY: what the caller promises is what the system's allocator wants.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // JUSTIFICATION: the system's allocator does the work.
        // SAFETY: the caller's promise is the same.
        there(unsafe { System.alloc(layout) }, layout.size())
    }

    // JUSTIFICATION: the trait has it so.
    // SAFETY: what the caller promises is what the system's allocator wants.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // JUSTIFICATION: the system's allocator does the work.
        // SAFETY: the caller's promise is the same.
        there(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    // JUSTIFICATION: the trait has it so.
    // SAFETY: what the caller promises is what the system's allocator wants.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // JUSTIFICATION: the system's allocator does the work.
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(at, layout) };
    }

    // JUSTIFICATION: the trait has it so.
    // SAFETY: what the caller promises is what the system's allocator wants.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // JUSTIFICATION: the system's allocator does the work.
        // SAFETY: the caller's promise is the same.
        there(unsafe { System.realloc(at, layout, size) }, size)
    }
}

#[inline]
fn there(at: *mut u8, size: usize) -> *mut u8 {
    if at.is_null() && !FALLIBLE.get() {
        out_of_memory(size);
    }
    at
}

#[cold]
fn out_of_memory(size: usize) -> ! {
    let mut line = Cursor::new([0_u8; 256]);
    // It fits.
    let _ = writeln!(line, "{}", Lack(size));
    let len = usize::try_from(line.position()).unwrap_or(0);
    let bytes = &line.get_ref()[..len];
    // JUSTIFICATION: the library's own standard error has a lock.
    // SAFETY: reads the bytes that it is given.
    unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
    // JUSTIFICATION: the library's own exit runs handlers and takes locks.
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(1) }
}

/// Bytes that there are not.
struct Lack(usize);

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "thruway: out of memory: cannot allocate {} bytes; raise the limits of address space \
             (ulimit -v) and data (ulimit -d), or free memory",
            self.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_and_says_what_to_do() {
        let line = Lack(usize::MAX).to_string();
        assert!(line.len() < 250 && line.contains("ulimit -v"), "{line}");
    }

    #[test]
    #[cfg(not(miri))] // which ends where its memory does
    fn what_one_can_do_without_is_an_error() {
        let huge = Layout::array::<u8>(isize::MAX as usize - 4096).unwrap();
        // JUSTIFICATION: the allocator's functions are unsafe.
        // SAFETY: the layout is of bytes, and not empty; nothing is there to be freed.
        let got = fallible(|| unsafe { Heap.alloc(huge) });
        assert!(got.is_null() && !FALLIBLE.get());
    }
}
