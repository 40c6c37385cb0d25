//! What DPDK says: its log, and errors with the reasons from it.

use super::sys::{self, TextBuffer};
use crate::error::PortError;

/// An error of DPDK as such.
pub(super) fn wrong(what: impl Into<String>) -> PortError {
    PortError::Dpdk { what: what.into() }
}

/// The lines of DPDK's output and log with a reason, each with a separator behind it.
pub(super) fn reasons(printed: &str, log: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    // A wrong option makes it print all those there are.
    let manual = printed.lines().position(|line| line.starts_with("Usage:") || line.is_empty());
    let before = printed.lines().take(manual.unwrap_or(usize::MAX));
    let is_fault = |line: &&str| {
        !line.starts_with(char::is_whitespace)
            && (line.contains(" option ") || line.contains("rror"))
    };
    for line in before.chain(log.lines()).chain(printed.lines().filter(is_fault)) {
        let line = line.trim().trim_start_matches("EAL: ").trim_start_matches("FATAL: ");
        let is_noise = line.is_empty() || line.starts_with("Detected ");
        if !is_noise && !lines.contains(&line) && lines.len() < 6 {
            lines.push(line);
        }
    }
    lines.iter().map(|line| format!("{line}; ")).collect()
}

/// What DPDK logged since the last call.
pub(super) fn log() -> String {
    let mut room = TextBuffer::new();
    // JUSTIFICATION: a function of the shim.
    // SAFETY: the text has room.
    unsafe { sys::tw_log_take(room.text()) };
    room.into_string()
}

/// The same in a row, for an error: ` (a; b)`, or nothing.
pub(super) fn logged() -> String {
    let lines = reasons("", &log());
    if lines.is_empty() { lines } else { format!(" ({})", lines.trim_end_matches("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_is_left_out_of_errors() {
        let printed = "thruway: unrecognized option '--nonsense'\n\nUsage: thruway [options]\n\n\
                       EAL common options:\n  -c COREMASK   Hexadecimal\n";
        let log = "EAL: Detected CPU lcores: 2\nEAL: FATAL: Invalid 'command line' arguments.\n";
        let found = reasons(printed, log);
        assert_eq!(
            found,
            "thruway: unrecognized option '--nonsense'; Invalid 'command line' arguments.; "
        );
    }
}
