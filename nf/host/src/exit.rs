//! How a process ended.

use std::fmt;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with a status.
    Status(i32),
    /// By a signal's number. As the first process of its namespace, a program that aborts dies of
    /// SIGSEGV, for SIGABRT does not reach it.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Signal(libc::SIGSYS) => write!(f, "was killed for a forbidden system call"),
            Exit::Signal(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}
