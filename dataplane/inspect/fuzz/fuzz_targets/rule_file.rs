//! The fuzzer's bytes as rules and traffic. `cargo fuzz run rule_file` in dataplane/inspect; the same
//! checks run without a fuzzer in tests/fuzz_smoke.rs.
#![no_main]

#[path = "../../tests/rule_file/mod.rs"]
mod rule_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rule_file::rule_file(bytes));
