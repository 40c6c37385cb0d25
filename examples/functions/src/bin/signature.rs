//! The paper's real Worker: a signature over the first 64 bytes of each packet.
//!
//! Counter `signature` is the sum over all packets, counter `packets` their number.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_nf::{Batch, Config, Verdict};

/// Bytes that are looked at.
const LEN: usize = 64;

/// A multiplicative mix of the words; bytes that a short packet does not have count as 0.
fn signature(bytes: &[u8]) -> u64 {
    let mut first = [0; LEN];
    let len = bytes.len().min(LEN);
    first[..len].copy_from_slice(&bytes[..len]);
    first.as_chunks().0.iter().fold(0, |signature: u64, word| {
        (signature ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

fn main() -> ExitCode {
    let config = Config { name: "signature", ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let packets = start.counter("packets");
        let sum = start.counter("signature");
        Ok(move |batch: &mut Batch<'_>| {
            packets.add(batch.len() as u64);
            batch.each(|packet| {
                sum.add(signature(packet.bytes()));
                Verdict::Next(0)
            });
        })
    })
}
