//! What the process does when it comes to grief: a panic without memory, a file that may not grow.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::sync::Arc;

use signal_hook::consts::signal::SIGXFSZ;
use thruway_packet::Memory;
use thruway_sync::atomic::AtomicBool;

/// Bytes of a message; what is longer is cut.
const LINE: usize = 1024;

/// Prepares the process, before it does anything else.
pub fn prepare() {
    std::panic::set_hook(Box::new(report));
    // A file that reaches the limit of its size (RLIMIT_FSIZE) is then an error of the write, as a
    // full disk is, instead of the end of the process. If this fails it is as it was.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Reserves the memory for packets.
///
/// # Errors
/// There is none, and what to do.
pub fn reserve() -> anyhow::Result<()> {
    Memory::prepare().map_err(|error| {
        anyhow::anyhow!(
            "no memory for packets: {error}; raise the limits of address space (ulimit -v), of data \
             (ulimit -d) and of files (ulimit -f), or free memory"
        )
    })
}

/// What to do where the system refuses a thread that the program needs.
pub fn no_thread(error: std::io::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "cannot start a thread: {error}; raise the limits of address space (ulimit -v) and \
         processes (ulimit -u), or free memory"
    )
}

/// How a message ends that the system gave because it had no memory (ENOMEM).
const NO_MEMORY: &str = "(os error 12)";

/// What to do then.
const MORE_MEMORY: &str =
    "raise the limits of address space (ulimit -v) and of data (ulimit -d), or free memory";

/// Reports on a panic in one line, and ends the process where memory is what lacks: unwinding wants
/// some, too, and a thread that the standard library starts panics where it cannot unwind. Nothing
/// is allocated and no symbols are looked up: both may fail then, and to panic here again would
/// hang the process.
fn report(panic: &PanicHookInfo<'_>) {
    let mut line = Line { bytes: [0; LINE], len: 0 };
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    let text = panic.payload_as_str().unwrap_or("no message");
    let lacks_memory = text.contains(NO_MEMORY);
    let _ = match lacks_memory {
        true => write!(line, "thruway: thread '{name}': {text}; {MORE_MEMORY}"),
        false => {
            let at = panic.location().map_or(("no place", 0), |at| (at.file(), at.line()));
            write!(
                line,
                "thruway: a fault of the program: thread '{name}' panicked at {}:{}: {text}; \
                 please report this line",
                at.0, at.1
            )
        }
    };
    let end = line.len.min(LINE - 1);
    line.bytes[end] = b'\n';
    // There is no other output for an error.
    let _ = std::io::stderr().write_all(&line.bytes[..=end]);
    if lacks_memory {
        signal_hook::low_level::exit(1);
    }
}

/// A line of text on the stack.
struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut() {
        let mut line = Line { bytes: [0; LINE], len: 0 };
        for _ in 0..LINE {
            write!(line, "abc").unwrap();
        }
        assert_eq!(line.len, LINE);
        assert!(line.bytes.starts_with(b"abcabc"));
    }
}
