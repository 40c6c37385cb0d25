//! Commands of another program that stands beside this one, as git has its subcommands.
//!
//! `thruway-manager` has a database and an HTTP server in it. So that a first look needs neither,
//! it is built by itself, and `thruway apply` starts it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The program.
const MANAGER: &str = "thruway-manager";

/// Its commands.
const COMMANDS: &[&str] = &[
    "apply", "capture", "daemon", "delete", "describe", "diff", "drain", "events", "get", "logs",
    "rollback", "rollout", "scale", "token",
];

/// Whether `thruway NAME` is one of them.
pub fn is_command(name: &str) -> bool {
    COMMANDS.contains(&name)
}

/// Becomes `thruway-manager` with these arguments; returns only if it cannot.
pub fn main(args: &[OsString]) -> ExitCode {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => {
            errln!("thruway: cannot find the path of this program: {error}");
            return ExitCode::FAILURE;
        }
    };
    let program = own.with_file_name(MANAGER);
    let error = Command::new(&program).args(args).exec();
    errln!("thruway: {}", explain(&program, args, &error));
    ExitCode::FAILURE
}

/// The reason why it could not be started, and the remedy.
fn explain(program: &Path, args: &[OsString], error: &std::io::Error) -> String {
    if error.kind() != ErrorKind::NotFound {
        return format!("{}: {error}", program.display());
    }
    let command = args.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    let dir = program.parent().unwrap_or(Path::new("."));
    format!(
        "`{command}` is a command of {MANAGER}, which is not in {}; build it (cargo build \
         --release -p thruway-manager-program) and put it there",
        dir.display()
    )
}
