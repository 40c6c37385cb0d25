//! Random packets through the engine: fuzzing that needs no fuzzer and no luck, as the seed is
//! fixed.

mod any_packets;

use any_packets::any_packets;
use thruway_packet::Memory;

/// Conversations.
const RANDOM: usize = 4_000;

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_packets() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut touched = 0;
    for round in 0..RANDOM {
        let len = random.next() as usize % 1500;
        let bytes: Vec<u8> = (0..len).map(|_| (random.next() >> 32) as u8).collect();
        any_packets(&bytes);
        if round == RANDOM / 2 {
            touched = Memory::get().small().stats().touched;
        }
    }
    // Nothing is lost: the same frames serve again and again.
    assert_eq!(Memory::get().small().stats().touched, touched);
}
