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

#[path = "../../../thruway/tests/system/privileges.rs"]
#[allow(dead_code)] // All skipped tests need root, and nothing else.
mod privileges;

use std::time::{Duration, Instant};

use privileges::privileged;

/// Longest time that anything here may take.
pub const LIMIT: Duration = Duration::from_secs(60);

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
