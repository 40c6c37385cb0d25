//! The fuzzer's bytes as the packets of a few connections. `cargo fuzz run tcp` in dataplane/stream;
//! the same checks run without a fuzzer in tests/tcp_packets/main.rs.
#![no_main]

#[path = "../../tests/tcp_packets/any_packets/mod.rs"]
mod any_packets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_packets::any_packets(bytes));
