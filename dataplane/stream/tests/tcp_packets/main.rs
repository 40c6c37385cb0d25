//! Random packets through the engine: fuzzing that needs no fuzzer and no luck, as the seed is
//! fixed.

mod any_packets;

use any_packets::any_packets;
use thruway_packet::Memory;
use thruway_random::Random;

/// Conversations.
const RANDOM: usize = 4_000;

#[test]
fn random_packets() {
    let mut random = Random::from_seed(0x9e37_79b9_7f4a_7c15);
    let mut touched = 0;
    for round in 0..RANDOM {
        let len = random.next_u64() as usize % 1500;
        let bytes: Vec<u8> = (0..len).map(|_| (random.next_u64() >> 32) as u8).collect();
        any_packets(&bytes);
        if round == RANDOM / 2 {
            touched = Memory::get().small().stats().touched;
        }
    }
    // Nothing is lost: the same frames serve again and again.
    assert_eq!(Memory::get().small().stats().touched, touched);
}
