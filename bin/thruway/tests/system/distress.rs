//! Too little memory, and files that may not grow: an error, an end, and no hanging.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::process::{Done, Running, thruway};

/// Thruway under a limit that the shell sets.
fn limited(limit: &str, args: &[&str]) -> Command {
    let program = thruway().get_program().to_owned();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]).arg(program).args(args);
    command.env("RUST_BACKTRACE", "1").stdin(Stdio::null());
    command
}

/// Whether what it says of its end is about memory, in few lines, without a backtrace.
#[track_caller]
fn ends_for_memory(limit: &str, kilobytes: u64, done: &Done) {
    let said = &done.stderr;
    // The kernel does not start a program that is larger than the limit, the loader not one whose
    // libraries find no place.
    let program = std::fs::metadata(thruway().get_program()).expect("it is there").len();
    let is_loaded = kilobytes * 1024 > program;
    let killed = done.status.signal() == Some(Signal::SEGV.as_raw());
    // (Both as glibc's loader writes them.)
    let loader = ["error while loading", "cannot allocate TLS data structures"];
    let unloaded = killed && said.is_empty() || loader.iter().any(|it| said.contains(it));
    if unloaded && (!is_loaded || !killed) {
        return;
    }
    assert!(done.status.code().is_some_and(|code| code != 0), "{limit}: {:?} {said}", done.status);
    assert!(said.to_lowercase().contains("memory"), "{limit}: {said}");
    assert!(said.lines().count() <= 3 && !said.contains("backtrace"), "{limit}: {said}");
    assert!(!said.contains("a fault of the program"), "{limit}: {said}");
}

#[test]
fn with_too_little_memory_it_ends_with_an_error() {
    let text = "InfiniteSource(LENGTH 64, LIMIT 1000, STOP true) -> Queue -> Unqueue -> Discard";
    let mut refused = 0;
    let data = (2_000..20_000).step_by(500).map(|kilobytes| ("-d", kilobytes));
    let space = (20_000..280_000).step_by(4_000).map(|kilobytes| ("-v", kilobytes));
    for (option, kilobytes) in data.chain(space) {
        let limit = format!("{option} {kilobytes}");
        for program in ["run", "click"] {
            let running = Running::start(&mut limited(&limit, &[program, "-e", text]));
            let done = running.wait(SOON);
            if !done.status.success() {
                refused += 1;
                ends_for_memory(&limit, kilobytes, &done);
            }
        }
    }
    assert!(refused > 0, "every run had enough");
}

/// Where memory is out while packets move, in several threads at once.
#[test]
fn where_memory_ends_in_a_run_it_ends_with_an_error() {
    let text = "a :: InfiniteSource(LENGTH 1400) -> qa :: Queue(4000000) -> Idle;
         b :: InfiniteSource(LENGTH 1400) -> qb :: Queue(4000000) -> Idle; StaticThreadSched(b 1)";
    let mut ended = 0;
    for kilobytes in (180_000..420_000).step_by(20_000) {
        let limit = format!("-v {kilobytes}");
        let mut running =
            Running::start(&mut limited(&limit, &["run", "-q", "-j", "2", "-e", text]));
        std::thread::sleep(Duration::from_millis(300));
        if !running.ended() {
            running.signal(Signal::TERM);
        }
        let done = running.wait(SOON);
        // The signal's own doing, where it came before anybody listened to it.
        let is_told = done.status.signal() == Some(Signal::TERM.as_raw());
        if !done.status.success() && !is_told {
            ended += 1;
            ends_for_memory(&limit, kilobytes, &done);
        }
    }
    assert!(ended > 0, "every run had enough");
}

/// Longest time to the end, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

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
    for kilobytes in [60_000, 180_000, 240_000, 300_000, 600_000] {
        for wait in [0, 5, 20, 60, 500] {
            let limit = format!("-v {kilobytes}");
            let mut running = Running::start(&mut limited(&limit, &["run", "-q", "-e", text]));
            std::thread::sleep(Duration::from_millis(wait));
            if !running.ended() {
                running.signal(Signal::TERM);
            }
            running.wait(SOON);
        }
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
