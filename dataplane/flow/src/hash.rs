//! The keyed hash of session tables.
//!
//! Folded multiplication: two 64-bit words, each mixed with secret state, are multiplied to 128
//! bits, and the halves of the product are xored. One multiplication takes in 16 bytes, so a
//! five-tuple costs a few nanoseconds. (The method of the hash functions wyhash and foldhash.)
//!
//! Keys come off the wire. With a secret seed, a sender cannot choose keys that collide, as it can
//! with a CRC, which is linear: keys that collide under one CRC seed collide under all. This is no
//! cryptographic hash: never show hashes, or the order of a table, to a party that chooses keys.

/// Odd constants without structure: the fractional part of pi, 64 bits each.
const PI: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];

/// A hash function, one out of 2^128.
#[derive(Clone)]
pub struct Hasher {
    begin: u64,
    secret: u64,
}

impl Hasher {
    /// The function of this seed. Draw the seed at random when the process starts.
    pub fn new(seed: [u64; 2]) -> Hasher {
        // Even a seed of zeros multiplies by something.
        Hasher { begin: fold(seed[0] ^ PI[0], PI[1]), secret: seed[1] ^ PI[2] }
    }

    /// The hash of these words and their number. All 64 bits are equally good.
    #[inline]
    pub fn hash(&self, words: &[u32]) -> u64 {
        let (whole, rest) = words.as_chunks::<4>();
        let mut state = self.begin;
        for chunk in whole {
            state = self.absorb(state, *chunk);
        }
        if !rest.is_empty() {
            let mut chunk = [0; 4];
            chunk[..rest.len()].copy_from_slice(rest);
            state = self.absorb(state, chunk);
        }
        // The length distinguishes keys from the same keys with zeros after them.
        fold(state ^ self.secret, PI[1] ^ words.len() as u64)
    }

    /// One step: 16 bytes into the state.
    #[inline]
    fn absorb(&self, state: u64, [a, b, c, d]: [u32; 4]) -> u64 {
        let (low, high) = (u64::from(a) | u64::from(b) << 32, u64::from(c) | u64::from(d) << 32);
        fold(low ^ state, high ^ self.secret)
    }
}

/// The two halves of the product, xored.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SEEDS: [[u64; 2]; 3] = [[0, 0], [1, 2], [0xdead_beef_0123_4567, 0xfedc_ba98_7654_3210]];

    /// Keys as networks make them: few bits differ, and these in regular steps.
    fn families() -> Vec<(&'static str, Vec<Vec<u32>>)> {
        let address = |n: u32| 0x0a00_0000 | n;
        let ports = (0..1 << 16).map(|n| vec![address(1), address(2), n << 16 | 80, 6]).collect();
        let hosts = (0..1 << 16).map(|n| vec![address(n), address(2), 0x1234_01bb, 6]).collect();
        let swept = (0..1 << 16)
            .map(|n| vec![address(n & 0xff), 0xc0a8_0000 | n >> 8, 1024 << 16 | 53, 17])
            .collect();
        let wide = (0..1 << 16)
            .map(|n| vec![0x2001_0db8, 0, 0, n, 0x2001_0db8, 1, 0, 1, 443, 6, 0, 0])
            .collect();
        let odd = (0..1 << 16).map(|n| vec![n]).collect();
        vec![("ports", ports), ("hosts", hosts), ("swept", swept), ("wide", wide), ("odd", odd)]
    }

    /// Pearson's statistic of a window of 10 bits, in standard deviations from its mean.
    fn deviation(hashes: &[u64], shift: u32) -> f64 {
        const BINS: usize = 1024;
        let mut counts = [0u32; BINS];
        for hash in hashes {
            counts[(hash >> shift) as usize % BINS] += 1;
        }
        let expected = hashes.len() as f64 / BINS as f64;
        let square = |n: &u32| (f64::from(*n) - expected).powi(2) / expected;
        let freedom = (BINS - 1) as f64;
        (counts.iter().map(square).sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn every_window_of_bits_is_evenly_used() {
        for seed in SEEDS {
            let hasher = Hasher::new(seed);
            for (name, keys) in families() {
                let hashes: Vec<u64> = keys.iter().map(|key| hasher.hash(key)).collect();
                for shift in (0..=54).step_by(6) {
                    let deviation = deviation(&hashes, shift);
                    // One in a million windows of a perfect hash would be so uneven.
                    assert!(deviation < 5.5, "{name}, bits from {shift}: {deviation}");
                }
            }
        }
    }

    #[test]
    fn hashes_of_a_family_do_not_collide() {
        for seed in SEEDS {
            let hasher = Hasher::new(seed);
            let mut hashes: Vec<u64> =
                families().iter().flat_map(|(_, keys)| keys).map(|key| hasher.hash(key)).collect();
            let count = hashes.len();
            hashes.sort_unstable();
            hashes.dedup();
            assert_eq!(hashes.len(), count);
        }
    }

    #[test]
    fn each_bit_of_a_key_changes_each_bit_of_the_hash_half_the_time() {
        const KEYS: u32 = 4096;
        let hasher = Hasher::new(SEEDS[2]);
        for bit in 0..128 {
            let mut changed = [0u32; 64];
            for n in 0..KEYS {
                let mut key = [n, 0x0a00_0001, 0x1f90_0050, 6];
                let before = hasher.hash(&key);
                key[bit / 32] ^= 1 << (bit % 32);
                let difference = before ^ hasher.hash(&key);
                (0..64).for_each(|i| changed[i] += (difference >> i) as u32 & 1);
            }
            for (i, count) in changed.iter().enumerate() {
                // 0.5, give or take six standard deviations of 4,096 throws.
                let share = f64::from(*count) / f64::from(KEYS);
                assert!((share - 0.5).abs() < 0.047, "bit {bit} to bit {i}: {share}");
            }
        }
    }

    #[test]
    fn seeds_lengths_and_places_matter() {
        let [a, b] = [SEEDS[1], SEEDS[2]].map(Hasher::new);
        assert_ne!(a.hash(&[1, 2, 3, 4]), b.hash(&[1, 2, 3, 4]));
        assert_ne!(Hasher::new([0, 1]).hash(&[7]), Hasher::new([1, 0]).hash(&[7]));
        for len in 0..12 {
            assert_ne!(a.hash(&[0; 12][..len]), a.hash(&[0; 12][..len + 1]));
        }
        assert_ne!(a.hash(&[1, 2, 0, 0]), a.hash(&[0, 0, 1, 2]));
        assert_ne!(a.hash(&[1, 2]), a.hash(&[2, 1]));
    }
}
