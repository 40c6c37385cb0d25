//! Corrupt: packets with wrong bits.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation, Replicas,
    Spec, Topic, Ty,
};
use thruway_packet::Batch;

use super::dice::{self, Fault, ranged};
use thruway_elements_support::random::Random;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Corrupt",
        topic: Topic::Faults,
        summary: "flips bits of packets at random",
        docs: "With probability P, BITS bits of a packet are flipped, each at a random place from \
               byte OFFSET on (within LENGTH bytes, if given); two may fall on the same place and \
               undo each other, except that a single bit always changes the packet. A packet that \
               has no byte in that range is not changed. Checksums are not repaired. With SEED, \
               two runs do the same damage (see Loss).",
        example: "InfiniteSource(LIMIT 100, STOP true) -> Corrupt(10%, BITS 3, SEED 1) -> Discard",
        args: &[
            dice::P,
            Arg::keyword("BITS", Ty::UInt, "bits to flip, 1 to 65535").or("1"),
            Arg::keyword("OFFSET", Ty::UInt, "first byte that may change").or("0"),
            Arg::keyword("LENGTH", Ty::UInt, "bytes that may change; else all that follow"),
            dice::SEED,
            dice::ACTIVE,
        ],
        handlers: &[
            dice::H_PROBABILITY,
            dice::H_ACTIVE,
            dice::H_COUNT,
            Handler::sum("corrupted", "packets chosen to be changed"),
            dice::H_SEED,
            dice::H_RESET,
        ],
        cost: &[Operation::Random.once()],
        replicas: Replicas::Apart("each draws numbers of its own"),
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<Corrupt>();

struct Corrupt {
    fault: Fault,
    bits: u16,
    offset: usize,
    length: usize,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Corrupt {
        fault: Fault::from_args(args, "corrupted")?,
        bits: ranged(args, "BITS", 1..=u16::MAX)?,
        offset: args.get("OFFSET")?,
        length: args.opt("LENGTH")?.unwrap_or(usize::MAX),
    }))
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

impl Handlers for Corrupt {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        self.fault.read(name)
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.fault.write(name, value)
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
