//! The plugin as a container runtime calls it: pods are network namespaces, addresses come from
//! host-local (Debian's containernetworking-plugins), and chains run under a real manager.
//!
//! These need root; for others they are skipped, and said so, unless
//! `THRUWAY_REQUIRE_PRIVILEGES=1`.
#![forbid(unsafe_code)]

mod chain;
mod errors;
mod faults;
mod manager;
mod page;
mod ports;
mod runtime;
mod verbs;

#[path = "../../../../bench/src/namespace.rs"]
#[allow(dead_code)] // The plugin lays the cables.
mod namespace;

use std::io::Write as _;
use std::time::{Duration, Instant};

/// Longest time that anything here may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Whether the tests may do what only root may. Says so past the test harness if not.
pub fn privileged(test: &str) -> bool {
    let log = |line: String| writeln!(std::io::stderr(), "{line}").expect("standard error");
    let until = std::env::var("THRUWAY_TESTS_UNTIL").ok();
    let until = until.map(|text| text.parse().expect("THRUWAY_TESTS_UNTIL: seconds since 1970"));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    if until.is_some_and(|until| now >= Duration::from_secs(until)) {
        log(format!("LEFT OUT: {test}: no time was left"));
        return false;
    }
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let required = std::env::var("THRUWAY_REQUIRE_PRIVILEGES").is_ok_and(|value| value == "1");
    assert!(!required, "{test} must run as root");
    log(format!("SKIPPED: {test}: needs root"));
    false
}

/// Looks until there is something; it must be there in time.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
