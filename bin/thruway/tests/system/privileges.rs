//! Tests that need root: whether they can run, and have time. Tests of other programs take this
//! file in by its path.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

/// Whether the tests may do what only root may. Says so loudly if not, and fails if they must.
///
/// A test that would begin later than at `THRUWAY_TESTS_UNTIL` (seconds since 1970) is left out:
/// these take the longest. `./check` fails then.
pub fn privileged(test: &str) -> bool {
    if is_late() {
        writeln!(std::io::stderr(), "LEFT OUT: {test}: no time was left").expect("standard error");
        return false;
    }
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let required = std::env::var("THRUWAY_REQUIRE_PRIVILEGES").is_ok_and(|value| value == "1");
    assert!(!required, "{test} must run as root");
    skip(test, "needs root");
    false
}

fn is_late() -> bool {
    let until = std::env::var("THRUWAY_TESTS_UNTIL").ok();
    let until =
        until.map(|text| text.parse::<u64>().expect("THRUWAY_TESTS_UNTIL: seconds since 1970"));
    let now = || SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    until.is_some_and(|until| now() >= Duration::from_secs(until))
}

/// Says that a test is not done, past the test harness: `eprintln` would be kept from sight.
pub fn skip(test: &str, why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {test}: {why}").expect("standard error");
}
