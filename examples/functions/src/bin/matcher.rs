//! Looks for many patterns at once in whole packets, with an automaton of megabytes: those that
//! hold one leave by output 1.
//!
//! `Nf(EXEC "matcher 20000 attack", OUTPUTS 2)`: 20,000 made-up patterns, and those that follow.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use thruway_nf::{Batch, Config, Verdict};

/// Bytes of a made-up pattern.
const LEN: usize = 16;

/// Patterns that are the same in every run: the digits of a linear congruential generator (Knuth,
/// TAOCP volume 2, section 3.3.4: MMIX's).
fn made_up(count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..LEN).map(|_| byte()).collect()
    })
    .take(count)
}

fn main() -> ExitCode {
    let config = Config { name: "matcher", outputs: 2, ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let mut words = std::env::args().skip(1);
        let count = words.next().and_then(|word| word.parse().ok());
        let count = count.ok_or("arguments: COUNT-OF-MADE-UP-PATTERNS [PATTERN ...]")?;
        let patterns = made_up(count).chain(words.map(String::into_bytes));
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns)
            .map_err(|error| format!("the patterns make no automaton: {error}"))?;
        start.counter("automaton-bytes").set(automaton.memory_usage() as u64);
        let matched = start.counter("matched");
        Ok(move |batch: &mut Batch<'_>| {
            batch.each(|packet| {
                if !automaton.is_match(packet.bytes()) {
                    return Verdict::Next(0);
                }
                matched.add(1);
                Verdict::Next(1)
            });
        })
    })
}
