//! Random numbers for traffic and scripts: fast, repeatable, and no secret.

/// Marsaglia's xorshift64* generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence number `seed`.
    pub(crate) fn new(seed: u64) -> Random {
        // Spreads neighbouring seeds; the state must not be 0.
        Random((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 1
    }

    /// A number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The high half of a product is even enough for 63 random bits.
        ((u128::from(self.next()) * u128::from(end)) >> 63) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeatable_and_within() {
        let mut a = Random::new(7);
        let mut b = Random::new(7);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            let value = a.below(10);
            assert_eq!(value, b.below(10));
            seen[value as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert_eq!(a.below(0), 0);
        assert_ne!(Random::new(1).next(), Random::new(2).next());
    }
}
