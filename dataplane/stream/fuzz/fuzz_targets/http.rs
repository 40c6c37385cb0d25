//! The fuzzer's bytes as both directions of an HTTP connection. `cargo fuzz run http` in
//! dataplane/stream; the same checks run without a fuzzer in tests/http/smoke.rs.
#![no_main]

#[path = "../../tests/http/any_bytes/mod.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_bytes::any_bytes(bytes));
