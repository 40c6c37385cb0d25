//! Too little memory, and files that may not grow: an error, an end, and no hanging.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::process::{Running, thruway};

/// Thruway under a limit that the shell sets.
fn limited(limit: &str, args: &[&str]) -> Command {
    let program = thruway().get_program().to_owned();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]).arg(program).args(args);
    command.env("RUST_BACKTRACE", "1").stdin(Stdio::null());
    command
}

const STEP: usize = 3;

#[test]
fn with_too_little_memory_it_ends_with_an_error() {
    let text = "InfiniteSource(LENGTH 64, LIMIT 1000, STOP true) -> Queue -> Unqueue -> Discard";
    let mut refused = 0;
    // Kilobytes; below, the program's own libraries find no place.
    for option in ["-v", "-d"] {
        for kilobytes in (40_000..130_000).step_by(1000 * STEP) {
            let limit = format!("{option} {kilobytes}");
            for program in ["run", "click"] {
                let running = Running::start(&mut limited(&limit, &[program, "-e", text]));
                let done = running.wait(Duration::from_secs(60));
                let said = done.stderr.clone();
                if done.status.success() {
                    continue;
                }
                refused += 1;
                assert!(!said.trim().is_empty(), "{limit}: nothing said, {:?}", done.status);
                assert!(said.lines().count() <= 3, "{limit}: {said}");
                assert!(!said.contains("backtrace"), "{limit}: {said}");
            }
        }
    }
    assert!(refused > 0, "every run had enough");
}

#[test]
fn where_packets_have_no_memory_it_says_what_to_do() {
    let text = "InfiniteSource(LIMIT 1000, STOP true) -> Discard";
    for program in ["run", "click"] {
        let done = Running::start(&mut limited("-v 120000", &[program, "-e", text]))
            .wait(Duration::from_secs(60));
        done.expect(1).says(&["no memory for packets", "ulimit -v"]);
    }
}

#[test]
fn it_can_be_ended_where_memory_is_short() {
    let text = "Idle -> Discard; TimedSource(0.1) -> Discard";
    for kilobytes in [300_000, 600_000] {
        let limit = format!("-v {kilobytes}");
        let mut running = Running::start(&mut limited(&limit, &["run", "-q", "-e", text]));
        std::thread::sleep(Duration::from_millis(500));
        if !running.ended() {
            running.signal(Signal::TERM);
        }
        running.wait(Duration::from_secs(30));
    }
}

#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("out.pcap").display().to_string();
    // Packet memory is a file of 130,027,520 bytes; blocks are of 512.
    let text = format!("InfiniteSource(LENGTH 1500, LIMIT 90000, STOP true) -> ToDump({file})");
    for program in ["run", "click"] {
        let done = Running::start(&mut limited("-f 254100", &[program, "-e", &text]))
            .wait(Duration::from_secs(60));
        assert_eq!(done.status.code(), Some(1), "{:?} {}", done.status, done.stderr);
        done.says(&["out.pcap", "File too large"]);
        let len = std::fs::metadata(&file).expect("what there was room for").len();
        assert!((1 << 20..=254_100 * 512).contains(&len), "{len}");
    }
}
