//! Random numbers that a seed determines: for samples, faults, tests and benches that can be
//! repeated.
//!
//! *Absent here:* secrets. An observer of some of these numbers can compute all that follow.
#![forbid(unsafe_code)]

use std::ops::RangeInclusive;

/// A generator of 64-bit numbers: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Bytes of a number.
    pub const BYTES: usize = 8;

    /// The generator of a seed.
    #[inline]
    pub const fn from_seed(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `n`, or 0 when `n` is 0. Off an even spread by less than n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// An index into something of this length, or 0 when that is empty.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number of the range. Off an even spread by less than the range's length / 2^64.
    pub fn within(&mut self, range: RangeInclusive<i64>) -> i64 {
        let span = range.end().abs_diff(*range.start()).saturating_add(1);
        range.start().wrapping_add_unsigned(self.next_u64() % span)
    }

    /// The same, for sizes.
    pub fn size(&mut self, range: RangeInclusive<usize>) -> usize {
        self.within(*range.start() as i64..=*range.end() as i64) as usize
    }

    /// A size up to `max` of random magnitude: small ones are as frequent as large ones.
    pub fn magnitude(&mut self, max: usize) -> usize {
        let bits = self.size(0..=max.max(1).ilog2() as usize + 1);
        self.size(0..=max.min(1 << bits))
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.next_u64() % 1000 < u64::from(permille)
    }

    /// One of these.
    ///
    /// # Panics
    /// If there is none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.size(0..=all.len() - 1)]
    }

    /// Random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(Random::BYTES) {
            let number = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }

    /// So many random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// A generator of its own.
    pub fn fork(&mut self) -> Random {
        Random::from_seed(self.next_u64())
    }
}

/// Spreads a number over 64 bits (the finaliser of SplitMix64): a bijection.
#[inline]
pub const fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        let mut random = Random::from_seed(1_234_567);
        let first = [(); 3].map(|()| random.next_u64());
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_stay_in_their_bounds_and_reach_them() {
        let mut random = Random::from_seed(1);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[random.index(10)] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
        assert_eq!((random.below(0), random.index(0), random.below(1)), (0, 0, 0));
        let mut seen = [false; 7];
        (0..1000).for_each(|_| seen[(random.within(-3..=3) + 3) as usize] = true);
        assert_eq!(seen, [true; 7]);
        random.within(i64::MIN..=i64::MAX);
        let hits = (0..10_000).filter(|_| random.chance(250)).count();
        assert!((2_200..2_800).contains(&hits), "{hits}");
    }

    #[test]
    fn the_last_number_of_bytes_is_cut() {
        let mut random = Random::from_seed(5);
        let bytes = random.bytes(11);
        let mut again = Random::from_seed(5);
        let numbers = [again.next_u64().to_le_bytes(), again.next_u64().to_le_bytes()].concat();
        assert_eq!(bytes, numbers[..11]);
        assert_eq!(*again.one_of(&[7]), 7);
        assert_ne!(again.fork().next_u64(), again.next_u64());
    }
}
