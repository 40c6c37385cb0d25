//! A token bucket: what elements that keep to a rate count with.
//!
//! Time goes in ticks, and tokens are fixed-point fractions of the capacity, as in Click, to meet
//! Click's counts at round times: a fraction is always rounded down, and a token that is due at 10
//! s is there one tick later unless the division is exact.

use std::fmt;

use thruway_element::{Bandwidth, Env, FromArg, Ty};

use crate::pace::TokenLevel;

/// Nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;
/// Tick of elements that sleep between packets: they wake at most a thousand times a second.
const COARSE: i64 = 1_000_000;
/// Tick of elements that are asked anyway, and may space packets evenly.
const FINE: i64 = 1_000;

/// A bucket that fills at `rate` tokens a second up to `capacity`, and may be overdrawn.
///
/// A token is a packet or a byte, as its owner likes. Time comes from the owner as nanoseconds
/// ([`thruway_element::Cx::now`]); the same times give the same answers. A rate of 0 never fills.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate: u64,
    capacity: u64,
    /// Nanoseconds a tick.
    tick: i64,
    /// The weight of a token in `level`.
    scale: u64,
    /// The increase of `level` per tick.
    per_tick: u128,
    /// `u64::MAX` when full, negative while overdrawn.
    level: i128,
    /// Tick of the last refill; `None` before the first.
    last: Option<i64>,
}

const FULL: i128 = u64::MAX as i128;

impl TokenBucket {
    /// A full bucket for `rate` tokens a second, `capacity` (at least 1) of which it can hold, in
    /// ticks of a millisecond.
    pub fn new(rate: u64, capacity: u64) -> TokenBucket {
        TokenBucket::with_tick(rate, capacity, COARSE)
    }

    /// The same in ticks of a microsecond.
    pub fn fine(rate: u64, capacity: u64) -> TokenBucket {
        TokenBucket::with_tick(rate, capacity, FINE)
    }

    fn with_tick(rate: u64, capacity: u64, tick: i64) -> TokenBucket {
        let capacity = capacity.max(1);
        let scale = u64::MAX / capacity;
        // At most 2^128 divided by 10^3.
        let per_tick = u128::from(rate) * u128::from(scale) / (SECOND / tick) as u128;
        TokenBucket { rate, capacity, tick, scale, per_tick, level: FULL, last: None }
    }

    /// Tokens a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes rate and capacity from now on; whole tokens are kept as far as there is room.
    pub fn set_rate(&mut self, rate: u64, capacity: u64) {
        let (tokens, last) = (self.tokens(), self.last);
        *self = TokenBucket { last, ..TokenBucket::with_tick(rate, capacity, self.tick) };
        self.set_tokens(tokens);
    }

    /// Sets the number of tokens in it, at most its capacity.
    pub fn set_tokens(&mut self, tokens: u64) {
        self.level = if tokens >= self.capacity { FULL } else { self.scaled(tokens) };
    }

    /// Whole tokens in it, 0 while overdrawn.
    pub fn tokens(&self) -> u64 {
        u64::try_from(self.level.max(0) / i128::from(self.scale)).unwrap_or(u64::MAX)
    }

    /// Its level since its last refill; `None` if the bucket is unused.
    pub fn level(&self) -> Option<TokenLevel> {
        let tokens = self.level.div_euclid(i128::from(self.scale));
        let at = self.last?.saturating_mul(self.tick);
        Some(TokenLevel { at, tokens: i64::try_from(tokens).unwrap_or(i64::MIN) })
    }

    /// Sets what it held at a time.
    pub fn set_level(&mut self, level: TokenLevel) {
        self.last = Some(level.at.div_euclid(self.tick));
        self.set_tokens(u64::try_from(level.tokens).unwrap_or(0));
        self.spend(u64::try_from(level.tokens.saturating_neg()).unwrap_or(0));
    }

    fn scaled(&self, tokens: u64) -> i128 {
        // Only sums far beyond any capacity need more than i128 has.
        i128::try_from(u128::from(tokens) * u128::from(self.scale)).unwrap_or(i128::MAX)
    }

    /// Adds what has come since the last refill. A clock that went back adds nothing.
    pub fn refill(&mut self, now: i64) {
        let tick = now.div_euclid(self.tick);
        let elapsed = tick.saturating_sub(self.last.unwrap_or(tick)).max(0);
        self.last = Some(tick);
        let gained = self.per_tick.saturating_mul(elapsed as u128);
        let gained = i128::try_from(gained).unwrap_or(i128::MAX);
        self.level = self.level.saturating_add(gained).min(FULL);
    }

    /// Whether there are as many `tokens`.
    pub fn holds(&self, tokens: u64) -> bool {
        self.level >= self.scaled(tokens)
    }

    /// Takes `tokens` if there are as many.
    pub fn take(&mut self, tokens: u64) -> bool {
        let enough = self.holds(tokens);
        if enough {
            self.spend(tokens);
        }
        enough
    }

    /// Takes `tokens` even if there are fewer: the rest is owed and refilled first.
    pub fn spend(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(self.scaled(tokens));
    }

    /// When it will hold `tokens`, if nothing is taken meanwhile: the time of the last refill (to
    /// the tick) when it does already, `None` when it never will.
    pub fn ready_at(&self, tokens: u64) -> Option<i64> {
        let last = self.last.unwrap_or(0);
        let lacking = self.scaled(tokens).saturating_sub(self.level);
        if lacking <= 0 {
            return Some(last.saturating_mul(self.tick));
        }
        if self.per_tick == 0 || tokens > self.capacity {
            return None;
        }
        let ticks = lacking.unsigned_abs().div_ceil(self.per_tick);
        let ticks = i64::try_from(ticks).unwrap_or(i64::MAX);
        Some(last.saturating_add(ticks).saturating_mul(self.tick))
    }
}

/// A rate in bytes a second as Click writes it: in bits with the largest prefix that keeps it above
/// 1, and in megabytes from 2^29 bytes on.
pub fn bandwidth_text(rate: u64) -> String {
    // Doubles are exact up to 2^53 bytes a second.
    let bits = rate as f64 * 8.0;
    match rate {
        0x2000_0000.. => format!("{}MBps", rate as f64 / 1e6),
        125_000_000.. => format!("{}Gbps", bits / 1e9),
        125_000.. => format!("{}Mbps", bits / 1e6),
        _ => format!("{}kbps", bits / 1e3),
    }
}

/// A rate as an argument or handler gives it: bytes a second, with unit, or packets a second.
#[derive(Debug, Clone, Copy)]
pub struct RateArg<const BYTES: bool>(pub u64);

impl<const BYTES: bool> FromArg for RateArg<BYTES> {
    const TY: Ty = if BYTES { Ty::Bandwidth } else { Ty::UInt };

    fn from_arg(text: &str, env: &Env<'_>) -> Result<RateArg<BYTES>, String> {
        Ok(RateArg(match BYTES {
            true => Bandwidth::from_arg(text, env)?.0,
            false => u32::from_arg(text, env)?.into(),
        }))
    }
}

impl<const BYTES: bool> fmt::Display for RateArg<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match BYTES {
            true => f.write_str(&bandwidth_text(self.0)),
            false => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    /// Tokens taken one by one up to and including time `end`, waking when there is one.
    fn taken(mut bucket: TokenBucket, end: i64) -> u64 {
        let (mut now, mut count) = (0, 0);
        while now <= end {
            bucket.refill(now);
            while bucket.take(1) {
                count += 1;
            }
            now = bucket.ready_at(1).unwrap_or(i64::MAX);
        }
        count
    }

    /// Click's own figures: 10 s at 2/s with buckets of 1 and 50, and at 100/s with one of 1.
    #[test]
    fn counts_as_click_does() {
        assert_eq!(taken(TokenBucket::new(2, 1), 10_000 * MS), 20);
        assert_eq!(taken(TokenBucket::new(2, 50), 10_000 * MS), 69);
        assert_eq!(taken(TokenBucket::new(100, 1), 10_000 * MS), 910);
        assert_eq!(taken(TokenBucket::new(1000, 1), 10_000 * MS), 10_001);
    }

    #[test]
    fn fills_at_its_rate_up_to_its_capacity() {
        let mut bucket = TokenBucket::new(1000, 5);
        bucket.refill(1_000 * MS);
        for _ in 0..5 {
            assert!(bucket.take(1));
        }
        assert!(!bucket.take(1));
        assert_eq!(bucket.ready_at(1), Some(1_001 * MS));
        bucket.refill(1_001 * MS - 1);
        assert!(!bucket.take(1));
        bucket.refill(1_001 * MS);
        assert!(bucket.take(1) && !bucket.take(1));
        bucket.refill(9_000 * MS);
        assert_eq!(bucket.tokens(), 5);
    }

    #[test]
    fn debts_are_paid_first() {
        let mut bucket = TokenBucket::fine(1_000_000, 10);
        bucket.refill(0);
        bucket.spend(30);
        assert_eq!((bucket.tokens(), bucket.ready_at(1)), (0, Some(21_000)));
        bucket.refill(20_999);
        assert!(!bucket.take(1));
        bucket.refill(21_000);
        assert!(bucket.take(1));
    }

    #[test]
    fn what_never_comes() {
        let mut bucket = TokenBucket::new(0, 4);
        bucket.refill(7 * MS);
        assert_eq!(bucket.ready_at(4), Some(7 * MS));
        assert!(bucket.take(4));
        bucket.refill(i64::MAX);
        assert_eq!((bucket.tokens(), bucket.ready_at(1)), (0, None));
        bucket.set_rate(10, 4);
        assert_eq!(bucket.ready_at(5), None);
    }

    #[test]
    fn rates_as_text() {
        for (rate, text) in [
            (0, "0kbps"),
            (124, "0.992kbps"),
            (125_000, "1Mbps"),
            (1_562_500, "12.5Mbps"),
            (125_000_000, "1Gbps"),
            (1_250_000_000, "1250MBps"),
        ] {
            assert_eq!(bandwidth_text(rate), text);
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        for capacity in [0, 1, 2, u64::MAX] {
            let mut bucket = TokenBucket::new(u64::MAX, capacity);
            bucket.refill(i64::MIN);
            for _ in 0..4 {
                bucket.spend(u64::MAX);
            }
            bucket.refill(i64::MAX);
            bucket.refill(i64::MIN);
            bucket.ready_at(u64::MAX);
            bucket.set_rate(1, 3);
            bucket.set_tokens(9);
            assert_eq!((bucket.tokens(), bucket.rate(), bucket.capacity), (3, 1, 3));
        }
    }

    proptest! {
        /// Never more than capacity + rate * time; and hardly less, if steady use keeps the bucket
        /// from overflowing.
        #[test]
        fn keeps_the_rate(rate in 1u64..20_000, spare in 1u64..100, steps in 1i64..200,
                          step_ms in 1i64..10) {
            let capacity = rate * step_ms as u64 / 1000 + 1 + spare;
            let mut bucket = TokenBucket::new(rate, capacity);
            let mut taken = 0;
            for at in 0..=steps {
                bucket.refill(at * step_ms * MS);
                while bucket.take(1) {
                    taken += 1;
                }
            }
            let allowed = capacity + rate * (steps * step_ms) as u64 / 1000;
            prop_assert!(taken <= allowed && taken + 1 >= allowed, "{taken} {allowed}");
        }

        /// `ready_at` is the first moment at which `take` works.
        #[test]
        fn ready_at_is_exact(rate in 1u64..10_000_000, tokens in 1u64..50, spent in 0u64..500) {
            for mut bucket in [TokenBucket::new(rate, 50), TokenBucket::fine(rate, 50)] {
                bucket.refill(0);
                bucket.spend(spent);
                let at = bucket.ready_at(tokens).unwrap();
                let mut early = bucket.clone();
                early.refill((at - 1).max(0));
                bucket.refill(at);
                prop_assert!(at == 0 || !early.take(tokens));
                prop_assert!(bucket.take(tokens));
            }
        }
    }
}
