//! The generator MT19937 (M. Matsumoto and T. Nishimura, "Mersenne Twister: a 623-dimensionally
//! equidistributed uniform pseudo-random number generator", 1998): work of a known kind, for its
//! name stands in what was measured elsewhere.

/// Words of the state, and the distance of the word that each is mixed with.
const WORDS: usize = 624;
const DISTANCE: usize = 397;

/// A generator of 32-bit numbers.
#[derive(Clone)]
pub(super) struct Mersenne {
    state: Box<[u32; WORDS]>,
    /// Numbers of this state that were given out.
    used: usize,
}

impl Mersenne {
    /// The generator of a seed.
    pub(super) fn from_seed(seed: u32) -> Mersenne {
        let mut state = Box::new([seed; WORDS]);
        for at in 1..WORDS {
            let before = state[at - 1];
            let mixed = 1_812_433_253_u32.wrapping_mul(before ^ (before >> 30));
            state[at] = mixed.wrapping_add(at as u32);
        }
        Mersenne { state, used: WORDS }
    }

    /// The next number.
    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        if self.used == WORDS {
            self.renew();
        }
        let mut word = self.state[self.used];
        self.used += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// The next state, of which each word becomes a number.
    fn renew(&mut self) {
        for at in 0..WORDS {
            let next = self.state[(at + 1) % WORDS];
            let joined = (self.state[at] & 0x8000_0000) | (next & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[at] = self.state[(at + DISTANCE) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C++ demands the 10,000th number of its `mt19937` with seed 5489 (ISO/IEC 14882:2011, section
    /// 26.5.5).
    #[test]
    fn the_published_sequence() {
        let mut random = Mersenne::from_seed(5489);
        assert_eq!(random.next(), 3_499_211_612);
        for _ in 2..10_000 {
            random.next();
        }
        assert_eq!(random.next(), 4_123_659_995);
    }
}
