//! A state directory that functions cannot run from.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::resources::executable;
use crate::{DEADLINE, Manager, PROGRAM, fresh};

#[test]
fn a_file_system_without_execution_is_told_when_a_function_is_declared() {
    let dir = fresh();
    let state = dir.path().join("state");
    fs::create_dir(&state).expect("made");
    // In a mount namespace of its own, which ends with it.
    let script = "mount -t tmpfs -o noexec,mode=700 tmpfs \"$1\" && exec \"$0\" daemon --state \"$1\" \
                  --program none";
    let daemon = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, PROGRAM])
        .arg(&state)
        .env("THRUWAY_RUN_DIR", dir.path().join("run"))
        .stderr(Stdio::null())
        .spawn();
    let child = daemon.expect("unshare");
    let mut manager = Manager { child, dir: dir.path().to_owned() };
    let begun = Instant::now();
    while UnixStream::connect(dir.path().join("run/manager/api.sock")).is_err() {
        let ended = manager.child.try_wait().expect("waited");
        if ended.is_some() {
            assert!(std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_none(), "it cannot mount");
            eprintln!("SKIPPED: needs root, to mount a file system");
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "it does not listen");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (path, sha256) = executable(dir.path(), "one");
    let text = format!("functions: {{ids@1: {{path: {}, sha256: {sha256}}}}}", path.display());
    fs::write(dir.path().join("ids.yaml"), text).expect("written");
    let error = manager.fail(&["apply", "ids.yaml"]);
    assert!(error.contains("function/ids@1 (path): functions run from "), "{error}");
    assert!(error.contains("mounted noexec") && error.contains("another --state"), "{error}");
}
