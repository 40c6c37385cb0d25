//! Packets in memory: where chains begin.

use std::collections::HashMap;

use thruway_packet::prefetch_bytes;
use thruway_random::Random;

/// Of the packets' bytes.
const SEED: u64 = 1;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetch distance in packets, as in `ReplayUnqueue`.
const AHEAD: u32 = 24;

/// Packets in memory, kept from point to point.
#[derive(Default)]
pub struct Sources(HashMap<(u32, usize), Source>);

impl Sources {
    /// So many packets of a length.
    pub fn of(&mut self, memory: u32, len: usize) -> &Source {
        let key = (memory, len);
        if !self.0.contains_key(&key) {
            // A million large packets are 1.5 GB: not two sizes at once.
            self.0.clear();
        }
        self.0.entry(key).or_insert_with(|| Source::new(memory, len))
    }
}

/// Equal packets in memory, each from a line's beginning. The first four bytes of each are its
/// number, the rest is random from a seed.
pub struct Source {
    memory: Vec<u8>,
    /// Bytes before the first line's beginning.
    skip: usize,
    stride: usize,
    /// Bytes of a packet.
    pub len: usize,
    /// Packets there are.
    pub count: u32,
}

impl Source {
    /// So many packets of so many bytes.
    pub fn new(count: u32, len: usize) -> Source {
        let stride = len.next_multiple_of(LINE);
        let mut memory = vec![0_u8; stride * count as usize + LINE];
        let skip = memory.as_ptr().align_offset(LINE).min(LINE - 1);
        let mut random = Random::from_seed(SEED);
        let packets = memory[skip..].chunks_exact_mut(stride).take(count as usize);
        for (number, packet) in packets.enumerate() {
            for word in packet.chunks_exact_mut(8) {
                word.copy_from_slice(&random.next_u64().to_le_bytes());
            }
            packet[..4].copy_from_slice(&(number as u32).to_le_bytes());
        }
        Source { memory, skip, stride, len, count }
    }

    /// The bytes of a packet, by its number.
    #[inline]
    pub fn packet(&self, number: u32) -> &[u8] {
        let at = self.skip + self.stride * number as usize;
        &self.memory[at..at + self.len]
    }

    /// Asks the processor for a packet that is wanted soon. The processor's own prefetching finds
    /// the lines behind the first.
    #[inline]
    pub fn prefetch_behind(&self, number: u32) {
        let at = self.skip + self.stride * number.wrapping_add(AHEAD) as usize;
        if let Some(bytes) = self.memory.get(at..) {
            prefetch_bytes(bytes);
        }
    }

    /// The number after a number.
    #[inline]
    pub fn after(&self, number: u32) -> u32 {
        if number + 1 == self.count { 0 } else { number + 1 }
    }
}

/// The number that a packet's bytes say it has.
#[inline]
pub fn number_of(bytes: &[u8]) -> u32 {
    match bytes {
        [a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]),
        _ => u32::MAX,
    }
}

/// The real Worker's work (section 6.1 of the paper): a simple signature across the first 64 bytes
/// of a packet: the sum of its words, each turned by its place.
#[inline]
pub fn signature(bytes: &[u8]) -> u64 {
    let Some((first, _)) = bytes.split_first_chunk::<64>() else {
        return bytes.iter().fold(0, |sum, b| sum.rotate_left(7) ^ u64::from(*b));
    };
    let mut sum = 0_u64;
    for (nth, word) in first.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        sum = sum.wrapping_add(word.rotate_left(8 * nth as u32 + 1));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_numbered_and_differ() {
        let source = Source::new(3, 70);
        let packets: Vec<&[u8]> = (0..3).map(|number| source.packet(number)).collect();
        assert!(packets.iter().enumerate().all(|(n, p)| number_of(p) == n as u32 && p.len() == 70));
        assert_ne!(packets[0][4..], packets[1][4..]);
        assert_eq!(packets[2].as_ptr().align_offset(LINE), 0);
        assert_eq!((source.after(1), source.after(2)), (2, 0));
        source.prefetch_behind(u32::MAX);
    }

    #[test]
    fn a_signature_sees_every_one_of_the_first_64_bytes_and_their_order() {
        let plain: Vec<u8> = (0..80_u8).map(|n| n.wrapping_mul(n) ^ 0x5a).collect();
        for at in 0..80 {
            let mut other = plain.clone();
            other[at] ^= 0x10;
            assert_eq!(signature(&other) != signature(&plain), at < 64, "byte {at}");
        }
        let mut turned = plain.clone();
        turned[..16].rotate_left(8);
        assert_ne!(signature(&turned), signature(&plain));
    }
}
