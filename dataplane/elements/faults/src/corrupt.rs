//! Corrupt: packets with wrong bits.

use thruway_element::{Arguments, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic};
use thruway_packet::Batch;

use super::dice::{self, Fault, ranged};
use thruway_elements_support::random::Random;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Corrupt>(Spec {
    name: "Corrupt",
    topic: Topic::Faults,
    summary: "flips bits of packets at random",
    docs: "With probability P, BITS bits of a packet are flipped, each at a random place from \
           byte OFFSET on (within LENGTH bytes, if given); two may fall on the same place and \
           undo each other, except that a single bit always changes the packet. A packet that \
           has no byte in that range is not changed. Checksums are not repaired. With SEED, \
           two runs do the same damage (see Loss).",
    example: "InfiniteSource(LIMIT 100, STOP true) -> Corrupt(10%, BITS 3, SEED 1) -> Discard",
    cost: &[Operation::Random.once()],
    replicas: Replicas::Apart("each draws numbers of its own"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(like = dice::H_PROBABILITY)]
#[handler(like = dice::H_ACTIVE)]
#[handler(like = dice::H_COUNT)]
#[handler(sum, name = "corrupted", "packets chosen to be changed", get = self.fault.struck)]
#[handler(like = dice::H_SEED)]
#[handler(like = dice::H_RESET)]
struct Corrupt {
    /// bits to flip, 1 to 65535
    #[arg(like = dice::P, unread)]
    #[arg(keyword, or = "1")]
    #[new(ranged(args, "BITS", 1..=u16::MAX)?)]
    bits: u16,
    /// first byte that may change
    #[arg(keyword, or = "0")]
    offset: usize,
    /// bytes that may change; else all that follow
    #[arg(keyword, else = usize::MAX)]
    length: usize,
    #[arg(like = dice::SEED, unread)]
    #[arg(like = dice::ACTIVE, unread)]
    #[new(Fault::from_args(args)?)]
    #[part]
    fault: Fault,
}

/// Flips `bits` random bits.
fn flip(random: &mut Random, bytes: &mut [u8], bits: u16) {
    for _ in 0..bits {
        let place = random.below(bytes.len() as u64 * 8) as usize;
        if let Some(byte) = bytes.get_mut(place / 8) {
            *byte ^= 1 << (place % 8);
        }
    }
}

impl Element for Corrupt {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.fault.dice.see(batch.len()) {
            return;
        }
        for packet in batch {
            if !self.fault.strikes() {
                continue;
            }
            let after = packet.data_mut().get_mut(self.offset..).unwrap_or(&mut []);
            let length = self.length.min(after.len());
            flip(&mut self.fault.dice.random, &mut after[..length], self.bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn flips_bits_of_the_bytes_given(seed: u64, length in 0usize..40, bits in 1u16..20) {
            let mut bytes = vec![0; length];
            flip(&mut Random::from_seed(seed), &mut bytes, bits);
            let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
            // Places that are hit twice are restored: the number keeps its parity.
            prop_assert!(flipped <= u32::from(bits));
            prop_assert!(length == 0 || flipped % 2 == u32::from(bits) % 2);
        }
    }
}
