//! Random packets to the elements that read what other hosts send: fuzzing that needs no fuzzer.

mod any_packets;

use proptest::prelude::*;

proptest! {
    #[test]
    fn random_packets(bytes in prop::collection::vec(any::<u8>(), 0..90)) {
        any_packets::any_packets(&bytes);
    }
}
