//! Dice that a hostile function throws.

use thruway_random::Random;

/// A generator.
#[derive(Debug, Clone)]
pub struct Dice(Random);

impl Dice {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(Random::from_seed(seed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u32) -> u32 {
        self.0.below(n.into()) as u32
    }

    /// Any number, more often one near a boundary.
    pub fn number(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(4),
            1 => u32::MAX - self.below(4),
            2 => 1 << self.below(32),
            _ => self.bits() as u32,
        }
    }
}
