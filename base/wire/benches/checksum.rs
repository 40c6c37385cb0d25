//! The checksum against a plain loop. `cargo bench -p thruway-wire --bench checksum`.

use std::hint::black_box;
use std::time::{Duration, Instant};
use thruway_wire::checksum;

/// RFC 1071 word by word.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    let (words, rest) = bytes.as_chunks::<2>();
    for word in words {
        sum += u32::from(u16::from_be_bytes(*word));
    }
    if let [last] = rest {
        sum += u32::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Shortest of 15 turns: ns per call.
fn ns(mut call: impl FnMut() -> u16) -> f64 {
    const CALLS: u32 = 20_000;
    let mut best = Duration::MAX;
    for _ in 0..15 {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(call());
        }
        best = best.min(start.elapsed());
    }
    best.as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn main() {
    let bytes: Vec<u8> = (0..9001u32).map(|i| (i * 151) as u8).collect();
    println!("{:>6} {:>9} {:>9} ns per call", "bytes", "naive", "checksum");
    for len in [20, 40, 64, 127, 128, 256, 576, 1460, 9000] {
        let data = &bytes[1..=len]; // not aligned
        assert_eq!(naive(data), checksum::checksum(data));
        let plain = ns(|| naive(black_box(data)));
        let ours = ns(|| checksum::checksum(black_box(data)));
        println!("{len:>6} {plain:>9.2} {ours:>9.2}");
    }
    let header: &[u8; 20] = bytes[1..].first_chunk().expect("long enough");
    println!("IPv4 header {:>14.2}", ns(|| checksum::checksum_20(black_box(header))));
}
