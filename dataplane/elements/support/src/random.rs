//! Chance for elements that sample or break packets: seeded, so that a run can be repeated. And
//! chance that others must not foretell.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip::SipHasher24;
use thruway_element::{Arg, ArgErrors, Args, Env, FromArg, Ty};

pub use thruway_random::Random;

/// The generator of the element being built: the same for the same seed, element name and
/// thread, so that elements which were given one seed still choose independently.
pub fn of_element(args: &Args<'_>, seed: u64) -> Random {
    let mixed = |state: u64, with: u64| Random::from_seed(state ^ with).next_u64();
    let of_name = args.name().bytes().fold(seed, |state, byte| mixed(state, byte.into()));
    Random::from_seed(mixed(of_name, args.env().thread as u64))
}

/// Numbers that an observer of others of them cannot predict: SipHash-2-4, a pseudorandom function
/// (Aumasson and Bernstein, 2012), of a count, with a key that the system has drawn. For values
/// that an attacker off the path must not guess, such as ports (RFC 6056).
#[derive(Clone)]
pub struct Secret {
    keyed: SipHasher24,
    count: u64,
}

impl Secret {
    /// By a key from the system's own random numbers.
    pub fn fresh() -> Secret {
        // Its key of 128 bits is the system's; what is drawn from it does not show it.
        let system = RandomState::new();
        Secret::of_key(system.hash_one(0u8), system.hash_one(1u8))
    }

    /// By a key that a seed gives: so that a run can be repeated.
    pub fn from_seed(seed: u64) -> Secret {
        Secret::of_key(seed, 0)
    }

    /// Of the element being built: by its SEED, name and thread as [`of_element`], or
    /// fresh.
    pub fn of_element(args: &Args<'_>, seed: Option<u64>) -> Secret {
        let seeded = |seed| Secret::from_seed(of_element(args, seed).next_u64());
        seed.map_or_else(Secret::fresh, seeded)
    }

    fn of_key(first: u64, second: u64) -> Secret {
        Secret { keyed: SipHasher24::new_with_keys(first, second), count: 0 }
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.count += 1;
        let mut hasher = self.keyed;
        hasher.write_u64(self.count);
        hasher.finish()
    }

    /// A number below `n`, or 0 when `n` is 0. Off an even spread by less than n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The seed of an element: that of its argument SEED, else that of a RandomSeed, else a fresh one.
///
/// # Errors
/// SEED is no number.
pub fn seed_of(args: &Args<'_>) -> Result<u64, ArgErrors> {
    let common = || args.env().addresses.look_up("", RANDOM_SEED, |named| named.seed);
    Ok(args.opt("SEED")?.or_else(common).unwrap_or_else(fresh_seed))
}

/// Argument SEED; [`seed_of`] returns its value.
pub const SEED: Arg =
    Arg::keyword("SEED", Ty::UInt, "start of the random numbers; else each run differs");

/// Under which name the seed is declared that elements have without one of their own.
pub const RANDOM_SEED: &str = "RandomSeed";

/// A seed that no other run has, for elements without a given one.
pub fn fresh_seed() -> u64 {
    // Small enough to be typed again.
    RandomState::new().build_hasher().finish() >> 32
}

/// A probability, in parts of 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probability {
    of_2_53: u64,
}

const ONE: u64 = 1 << 53;

impl Probability {
    /// The probability `p`, if that is from 0 to 1.
    pub fn new(p: f64) -> Option<Probability> {
        (0.0..=1.0).contains(&p).then(|| Probability { of_2_53: (p * ONE as f64).round() as u64 })
    }

    /// As a number from 0 to 1.
    pub fn value(self) -> f64 {
        self.of_2_53 as f64 / ONE as f64
    }

    /// True with this probability.
    #[inline]
    pub fn hits(self, random: &mut Random) -> bool {
        (random.next_u64() >> 11) < self.of_2_53
    }

    /// That of the contrary.
    pub fn complement(self) -> Probability {
        Probability { of_2_53: ONE - self.of_2_53 }
    }
}

impl FromArg for Probability {
    const TY: Ty = Ty::Float;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<Probability, String> {
        let wrong = || format!("'{text}' is not a probability; write 0 to 1, or 0% to 100%");
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let number = f64::from_arg(number, env).map_err(|_| wrong())?;
        Probability::new(number / scale).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_element::handler_value;

    /// What a splitmix64 gives away: from one number all that follow. Of a secret there is no such
    /// function, whatever number is taken for its state.
    #[test]
    fn secrets_do_not_go_on_like_the_published_sequence() {
        let unshift = |z: u64, by: u32| (0..64 / by).fold(z, |x, _| z ^ x >> by);
        let inverse =
            |n: u64| (0..6).fold(n, |x, _| x.wrapping_mul(2u64.wrapping_sub(n.wrapping_mul(x))));
        let state_of = |z: u64| {
            let z = unshift(z, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
            unshift(unshift(z, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9)), 30)
        };
        let mut random = Random::from_seed(77);
        let mut foretold = Random::from_seed(state_of(random.next_u64()));
        assert_eq!(foretold.next_u64(), random.next_u64());
        let mut secret = Secret::from_seed(77);
        let mut foretold = Random::from_seed(state_of(secret.next_u64()));
        assert_ne!(foretold.next_u64(), secret.next_u64());
    }

    #[test]
    fn secrets_differ_and_seeds_repeat() {
        let numbers = |mut secret: Secret| [0; 4].map(|_| secret.next_u64());
        assert_ne!(numbers(Secret::fresh()), numbers(Secret::fresh()));
        assert_eq!(numbers(Secret::from_seed(1)), numbers(Secret::from_seed(1)));
        assert_ne!(numbers(Secret::from_seed(1)), numbers(Secret::from_seed(2)));
    }

    #[test]
    fn probabilities() {
        let p = |text: &str| handler_value::<Probability>("p", text).map(Probability::value).ok();
        assert_eq!(p("0.25"), Some(0.25));
        assert_eq!(p("25%"), Some(0.25));
        assert_eq!(p(" 100 % "), Some(1.0));
        assert_eq!(p("0"), Some(0.0));
        for wrong in ["1.01", "-0.1", "101%", "%", "", "x", "nan", "inf"] {
            assert_eq!(p(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn certainty() {
        let mut random = Random::from_seed(1);
        let (never, always) = (Probability::new(0.0).unwrap(), Probability::new(1.0).unwrap());
        assert!((0..1000).all(|_| always.hits(&mut random) && !never.hits(&mut random)));
        assert_eq!(never.complement(), always);
    }

    proptest! {
        #[test]
        fn frequency_is_the_probability(seed: u64, percent in 1u32..100) {
            let p = f64::from(percent) / 100.0;
            let mut random = Random::from_seed(seed);
            let chance = Probability::new(p).unwrap();
            let hits = (0..10_000).filter(|_| chance.hits(&mut random)).count() as f64;
            // Six standard deviations.
            prop_assert!((hits - p * 1e4).abs() < 6.0 * (1e4 * p * (1.0 - p)).sqrt() + 1.0);
        }

        #[test]
        fn below_stays_below(seed: u64, n in 1u64..) {
            let mut random = Random::from_seed(seed);
            prop_assert!((0..100).all(|_| random.below(n) < n));
            prop_assert_eq!(random.below(0), 0);
        }
    }
}
