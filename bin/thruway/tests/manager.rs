//! Commands of `thruway-manager`: `thruway` starts the program that stands beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use parking_lot::{Mutex, MutexGuard};
use tempfile::TempDir;

fn run(dir: &Path, args: &[&str]) -> Output {
    Command::new(dir.join("thruway")).args(args).output().expect("run")
}

/// One test at a time: a process that one of them begins while another writes a program has that
/// open for writing until it is another program, and what is so cannot be run (ETXTBSY).
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn one_at_a_time() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock()
}

/// A directory with the program alone.
fn alone() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    fs::copy(env!("CARGO_BIN_EXE_thruway"), dir.path().join("thruway")).expect("copied");
    dir
}

#[test]
fn commands_of_the_manager_go_to_the_program_beside_this_one() {
    let (_alone, dir) = (one_at_a_time(), alone());
    let manager = dir.path().join("thruway-manager");
    fs::write(&manager, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").expect("written");
    fs::set_permissions(&manager, fs::Permissions::from_mode(0o755)).expect("set");
    for (args, expected) in [
        (&["apply", "a b", "--output", "json"][..], "<apply><a b><--output><json>"),
        (&["get"], "<get>"),
        (&["daemon", "--help"], "<daemon><--help>"),
        (&["help", "rollback"], "<rollback><--help>"),
    ] {
        let output = run(dir.path(), args);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert_eq!(output.status.code(), Some(7));
    }
}

#[test]
fn without_that_program_the_error_says_what_to_do() {
    let (_alone, dir) = (one_at_a_time(), alone());
    for command in [
        "apply", "capture", "daemon", "delete", "describe", "diff", "events", "get", "logs",
        "rollback", "rollout", "scale", "token",
    ] {
        let output = run(dir.path(), &[command]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(&format!("`{command}` is a command of thruway-manager")), "{error}");
        assert!(error.contains("cargo build"), "{error}");
    }
    let help = run(dir.path(), &["--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("Declare the chains of a file"));
}
