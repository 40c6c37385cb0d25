//! The program `thruway-manager` as a library, for its binary.
//!
//! `daemon` is the manager; the other commands talk to it over its socket. `thruway daemon`,
//! `thruway apply` and so on start this program, as git does with its subcommands.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod apply;
mod capture;
mod chain;
mod change;
mod check;
mod cli;
mod connect;
mod daemon;
mod description;
mod drain;
mod fetch;
mod file;
mod follow;
mod logs;
mod output;
mod page;
mod replicas;
mod show;
mod sse;
mod tables;
mod target;
mod token;

use std::process::ExitCode;

/// Runs the program with the arguments of this process; returns its exit code.
pub fn program() -> ExitCode {
    thruway::guarded(cli::main)
}
