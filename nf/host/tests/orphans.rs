//! A host that is killed while it starts functions leaves nothing behind.

mod peer;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use peer::spec;
use thruway_nf_host::Function;

/// Moments of a start at which its host is killed; a start takes tens of milliseconds.
const KILLS: u64 = 80;
const STEP: Duration = Duration::from_micros(500);
/// How long what is left may take to notice.
const SOON: Duration = Duration::from_secs(5);

/// Not a test: the isolated function itself, see `peer`.
#[test]
fn role() {
    peer::play();
}

/// Not a test, but the host that is killed, where it is told so.
#[test]
fn host() {
    if std::env::var_os("THRUWAY_ORPHANS").is_some() {
        println!("begins");
        let functions = [0, 1].map(|_| Function::start(spec("honest")));
        std::thread::sleep(SOON);
        drop(functions);
    }
}

/// Processes that are, or were to become more than, a host with this word among its arguments.
fn left(word: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("it is there").flatten();
    let names = processes.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    });
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_host_that_is_killed_at_any_moment_leaves_no_process() {
    let word = format!("orphans-of-{}", std::process::id());
    for kill in 0..KILLS {
        let mut host = Command::new(std::env::current_exe().expect("this program"));
        host.args(["host", "--exact", "--nocapture", "--skip", &word]);
        host.env("THRUWAY_ORPHANS", "1").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut host = host.spawn().expect("it starts");
        let out = host.stdout.take().expect("a pipe");
        let begins = std::io::BufRead::lines(std::io::BufReader::new(out))
            .any(|line| line.is_ok_and(|line| line.contains("begins")));
        assert!(begins, "the host said nothing");
        std::thread::sleep(STEP * kill as u32);
        host.kill().expect("it runs");
        host.wait().expect("it has ended");
    }
    let begin = Instant::now();
    while !left(&word).is_empty() && begin.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(&word), Vec::<String>::new(), "processes are left");
}
