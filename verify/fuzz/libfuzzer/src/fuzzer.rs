//! The fuzzer: one program for all targets, so that one build does. `THRUWAY_FUZZ_TARGET` names the
//! target; the arguments are libFuzzer's. `scripts/fuzz` builds and runs it.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use thruway_fuzz::{TARGETS, Target, find};

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn target() -> &'static Target {
    TARGET.get_or_init(|| {
        let name = std::env::var("THRUWAY_FUZZ_TARGET").unwrap_or_default();
        find(&name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("THRUWAY_FUZZ_TARGET={name}: give one of {}", names.join(" "));
            std::process::exit(2);
        })
    })
}

fuzz_target!(|bytes: &[u8]| {
    let target = target();
    if bytes.len() <= target.len_max {
        (target.run)(bytes);
    }
});
