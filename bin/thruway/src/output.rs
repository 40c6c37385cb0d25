//! Standard output and standard error of every command.
//!
//! Text goes out by `out!` and `outln!`, remarks for the user by `err!` and `errln!`. Standard
//! output that cannot be written ends the command: a reader that has gone (`thruway ... | head`)
//! ends it quietly, anything else (a full disk) is an error. Standard error that cannot be written
//! is ignored: nobody is left to read of it.
//!
//! The command ends by unwinding without a panic message, so that what it started (processes,
//! network namespaces, files) is ended and removed by its owners from any depth.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use crate::load::plain;

/// Prints to standard output.
#[macro_export]
macro_rules! out {
    ($($arg:tt)*) => { $crate::output::write(format_args!($($arg)*), "") };
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! outln {
    () => { $crate::output::write(format_args!(""), "\n") };
    ($($arg:tt)*) => { $crate::output::write(format_args!($($arg)*), "\n") };
}

/// Prints to standard error.
#[macro_export]
macro_rules! err {
    ($($arg:tt)*) => { $crate::output::remark(format_args!($($arg)*), "") };
}

/// Prints a line to standard error.
#[macro_export]
macro_rules! errln {
    () => { $crate::output::remark(format_args!(""), "\n") };
    ($($arg:tt)*) => { $crate::output::remark(format_args!($($arg)*), "\n") };
}

/// Standard output could not be written.
struct Failed(std::io::Error);

/// See `out!`.
pub fn write(text: Arguments<'_>, end: &str) {
    let mut out = std::io::stdout().lock();
    let written = out.write_fmt(text).and_then(|()| out.write_all(end.as_bytes()));
    drop(out);
    written.unwrap_or_else(|error| resume_unwind(Box::new(Failed(error))));
}

/// See `err!`.
pub fn remark(text: Arguments<'_>, end: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_fmt(text).and_then(|()| err.write_all(end.as_bytes()));
}

/// Runs a command, and ends it where its output cannot be written.
pub fn guarded(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let run = AssertUnwindSafe(|| {
        let code = command();
        match std::io::stdout().flush() {
            Ok(()) => code,
            Err(error) => ended(&error),
        }
    });
    match catch_unwind(run) {
        Ok(code) => code,
        Err(payload) => match payload.downcast::<Failed>() {
            Ok(failed) => ended(&failed.0),
            Err(payload) => resume_unwind(payload),
        },
    }
}

/// The exit code of a command after this error of its output.
fn ended(error: &std::io::Error) -> ExitCode {
    if error.kind() == ErrorKind::BrokenPipe {
        return ExitCode::SUCCESS;
    }
    errln!("thruway: cannot write to standard output: {}", plain(error));
    ExitCode::FAILURE
}
