//! The fuzzer's bytes to every parser. `cargo fuzz run every_parser` in base/wire; the same checks
//! run without a fuzzer in tests/fuzz_smoke.rs.
#![no_main]

#[path = "../../tests/every_parser/mod.rs"]
mod every_parser;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| every_parser::every_parser(bytes));
