//! Random numbers that are the same for the same seed.

use std::ops::RangeInclusive;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number of the range.
    pub fn within(&mut self, range: RangeInclusive<i64>) -> i64 {
        let span = range.end().abs_diff(*range.start()) + 1;
        range.start() + (self.next() % span) as i64
    }

    /// The same, for sizes.
    pub fn size(&mut self, range: RangeInclusive<usize>) -> usize {
        self.within(*range.start() as i64..=*range.end() as i64) as usize
    }

    /// A size whose magnitude is random: small ones are as frequent as large ones.
    pub fn magnitude(&mut self, max: usize) -> usize {
        let bits = self.size(0..=max.ilog2() as usize + 1);
        self.size(0..=max.min(1 << bits))
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.next() % 1000 < u64::from(permille)
    }

    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.size(0..=all.len() - 1)]
    }

    /// A generator of its own.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }
}

/// Spreads a number over 64 bits.
pub fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
