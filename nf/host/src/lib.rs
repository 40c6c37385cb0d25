//! Starts isolated network functions, hands them their regions, and supervises them.
//!
//! A function is a stranger's program. [`Process::spawn`] starts it as an unprivileged process that
//! has a control socket ([`CONTROL_FD`]) and nothing else of the machine: no files but its own
//! program and libraries, no network, no other processes, no rights, few system calls.
//!
//! ```no_run
//! use thruway_nf_host::{Limits, Order, Process, Program};
//!
//! let mut order = Order::new(Program::new("/opt/functions/firewall"));
//! order.limits = Limits { memory_bytes: 64 << 20, cpus: vec![1], ..Limits::default() };
//! let mut process = Process::spawn(&order)?;
//! println!("{}", process.report());
//! # Ok::<(), thruway_nf_host::HostError>(())
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | `sandbox` | what keeps a process apart, and the [`SandboxReport`] that says which of it is in force |
//! | `process` | [`Process`]: a descriptor of the process, its output, CPU time, end |
//!
//! What must stay true:
//!
//! - **Nothing is skipped silently.** Each [`Measure`] is applied, or missing with a reason;
//!   [`Isolation::Strict`] makes a missing one an error that names the remedy.
//! - **Between clone and execve nothing allocates, locks or panics**: the new process is a copy of
//!   a host with many threads (`sandbox/child.rs`).
//! - **What a function may see is decided here**: its program's headers name a loader and libraries
//!   but no places outside the directories of libraries.
//! - **A process dies with the thread that started it.** So start it from a thread that lives on.

mod error;
mod life;
mod line;
mod process;
mod sandbox;

pub use error::HostError;
pub use process::{Exit, Process};
pub use sandbox::{
    CONTROL_FD, Isolation, Limits, Measure, NOBODY, Order, Outcome, Program, SandboxReport,
};
