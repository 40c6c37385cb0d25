//! A rate with bursts, with one number as its state: limiters keep it per session, or share it
//! between threads.
//!
//! A token bucket turned round (the "virtual scheduling" form of the generic cell rate algorithm,
//! ITU-T I.371 annex A): instead of tokens and the time they were counted at, the state is the time
//! at which the bucket was, or would have been, empty.

use thruway_sync::Credit;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// Time goes in 2^-8 ns, so that a token at 100 Gbit/s lasts some twenty of them. Times wrap, and
/// are compared by their difference: sessions are idle for less than the 417 days of half a turn.
const TIME_BITS: u32 = 8;
/// Further bits of the time that a token takes.
const FRACTION_BITS: u32 = 24;
/// Longest time to fill a bucket, seconds: a hundred days.
const FILL_MAX_S: u64 = 100 * 24 * 3600;

/// Packets for which time is taken ahead, so that threads touch what they share twice in a batch
/// and not for each packet.
const AHEAD: u64 = 32;

/// Longest time for which a bucket that another configuration left can be overdrawn: a quarter of a
/// turn.
const DEBT_MAX: u64 = 1 << 62;

/// A rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Tokens a second.
    rate: u64,
    /// Tokens that a full bucket holds.
    burst: u64,
    /// Time that a token takes.
    per_token: u64,
    /// Time in which the bucket fills.
    fill: u64,
}

/// State of one bucket. All zeros is no bucket: see [`Pace::full`].
pub type Bucket = u64;

fn stamp(now: i64) -> u64 {
    (now as u64).wrapping_shl(TIME_BITS)
}

/// Whole tokens that a bucket held at a time, negative where it was overdrawn: what one
/// configuration leaves to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLevel {
    /// Nanoseconds.
    pub at: i64,
    /// Tokens that it had then.
    pub tokens: i64,
}

impl Pace {
    /// `rate` tokens a second, `burst` at once.
    ///
    /// # Errors
    /// One of them is 0, or the bucket would take more than a hundred days to fill.
    pub fn new(rate: u64, burst: u64) -> Result<Pace, String> {
        if rate == 0 || burst == 0 {
            return Err("must be at least 1".to_owned());
        }
        if burst / rate > FILL_MAX_S {
            return Err(format!("a burst of {burst} takes too long to refill at {rate} a second"));
        }
        // 2^62 at a rate of 1.
        let per_token = (SECOND << (TIME_BITS + FRACTION_BITS)) / rate;
        let fill = time_of(burst, per_token);
        Ok(Pace { rate, burst, per_token, fill })
    }

    /// Tokens a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Tokens that a full bucket holds.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// A full bucket.
    pub fn full(&self, now: i64) -> Bucket {
        stamp(now).wrapping_sub(self.fill)
    }

    /// Whether it is full.
    pub fn is_full(&self, bucket: Bucket, now: i64) -> bool {
        let credit = stamp(now).wrapping_sub(bucket) as i64;
        credit >= self.fill as i64
    }

    /// Lets threads spend tokens of a shared bucket: `tokens` returns how many of the available
    /// tokens to take, at the time that it is given, as [`Pace::affords`] and [`Pace::owes`] define
    /// them.
    #[inline]
    pub fn spend(&self, bucket: &Credit, now: i64, mut tokens: impl FnMut(i64) -> u64) -> u64 {
        let spent = |there| time_of(tokens(there), self.per_token);
        bucket.spend(stamp(now), self.fill, spent)
    }

    /// Takes tokens of a shared bucket, if there are enough, from the amount held `ahead`: one
    /// access to the bucket takes the time of several packets like this one.
    #[inline]
    pub fn take_ahead(&self, bucket: &Credit, ahead: &mut u64, tokens: u64, now: i64) -> bool {
        let cost = time_of(tokens, self.per_token);
        if cost > *ahead {
            let lacks = cost - *ahead;
            let wanted = lacks.saturating_add(cost.saturating_mul(AHEAD));
            let enough = |there: i64| match u64::try_from(there) {
                Ok(there) if there >= lacks => there.min(wanted),
                _ => 0,
            };
            *ahead += bucket.spend(stamp(now), self.fill, enough);
        }
        let enough = cost <= *ahead;
        *ahead -= if enough { cost } else { 0 };
        enough
    }

    /// Whether a time is enough for tokens.
    #[inline]
    pub fn affords(&self, there: i64, tokens: u64) -> bool {
        there >= 0 && time_of(tokens, self.per_token) <= there as u64
    }

    /// Whether a bucket of which there is this time is overdrawn once tokens are spent.
    #[inline]
    pub fn owes(&self, there: i64, tokens: u64) -> bool {
        i128::from(there) < i128::from(time_of(tokens, self.per_token))
    }

    /// The level of a shared bucket.
    pub fn level(&self, bucket: &Credit, now: i64) -> TokenLevel {
        let there = stamp(now).wrapping_sub(bucket.empty_at()) as i64;
        let there = i128::from(there.min(self.fill as i64));
        let tokens = (there << FRACTION_BITS).div_euclid(self.per_token.into());
        let most = i64::try_from(self.burst).unwrap_or(i64::MAX);
        TokenLevel { at: now, tokens: i64::try_from(tokens).unwrap_or(i64::MIN).min(most) }
    }

    /// Sets what a bucket that is shared holds.
    pub fn set_level(&self, bucket: &Credit, level: TokenLevel) {
        let (now, time) = (stamp(level.at), time_of(level.tokens.unsigned_abs(), self.per_token));
        bucket.set_empty_at(match level.tokens {
            0.. => now.wrapping_sub(time.min(self.fill)),
            _ => now.wrapping_add(time.min(DEBT_MAX)),
        });
    }

    /// Takes tokens, if there are as many.
    #[inline]
    pub fn take(&self, bucket: &mut Bucket, tokens: u64, now: i64) -> bool {
        let now = stamp(now);
        let mut credit = now.wrapping_sub(*bucket) as i64;
        if credit > self.fill as i64 || credit < 0 {
            // Full for long; or the clock went back, which must not close the bucket.
            credit = if credit < 0 { 0 } else { self.fill as i64 };
            *bucket = now.wrapping_sub(credit as u64);
        }
        let cost = time_of(tokens, self.per_token);
        let enough = cost <= credit as u64;
        if enough {
            *bucket = bucket.wrapping_add(cost);
        }
        enough
    }
}

/// The time that tokens take, rounded down.
#[inline]
fn time_of(tokens: u64, per_token: u64) -> u64 {
    // Less than 2^63 for what a bucket holds; what is more is too much anyway.
    let time = (u128::from(tokens) * u128::from(per_token)) >> FRACTION_BITS;
    u64::try_from(time).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A token bucket with tokens, in units of 10^-9 token: exact.
    struct Plain {
        level: i128,
        last: i64,
    }

    proptest! {
        #[test]
        fn decisions_are_those_of_a_token_bucket(
            rate in prop_oneof![1u64..100, 1000u64..10_000_000, 1u64..20_000_000_000],
            burst_ms in 1u64..3000,
            steps in proptest::collection::vec((0i64..50_000_000, 1u64..65_000), 1..200),
        ) {
            let burst = (rate / 1000 * burst_ms).max(1);
            let pace = Pace::new(rate, burst).unwrap();
            let mut now = 1_700_000_000 * SECOND as i64;
            let mut bucket = pace.full(now);
            let full = i128::from(burst) * i128::from(SECOND);
            let mut plain = Plain { level: full, last: now };
            for (n, (step, tokens)) in steps.into_iter().enumerate() {
                now += step;
                let gained = i128::from(rate) * i128::from(now - plain.last);
                (plain.level, plain.last) = ((plain.level + gained).min(full), now);
                let need = i128::from(tokens) * i128::from(SECOND);
                let took = pace.take(&mut bucket, tokens, now);
                // Each cost is off by less than 2^-8 ns, and each token's time by less than 10^-8
                // of it.
                let slack = i128::from(rate) * (n as i128 + 2) / 100 + need.max(full) / (1 << 18);
                prop_assert!(took == (plain.level >= need) || (plain.level - need).abs() <= slack);
                plain.level -= if took { need } else { 0 };
            }
        }
    }

    #[test]
    fn a_burst_then_the_rate() {
        let pace = Pace::new(1000, 5).unwrap();
        let mut bucket = pace.full(0);
        let mut passed = |now| (0..9).filter(|_| pace.take(&mut bucket, 1, now)).count();
        assert_eq!([passed(0), passed(1_000_000), passed(3_000_000)], [5, 1, 2]);
        assert_eq!(passed(3600 * SECOND as i64), 5);
        // Back by an hour: nothing is gained, and the rate holds from there.
        assert_eq!([passed(0), passed(2_000_000)], [0, 2]);
    }

    #[test]
    fn a_bucket_fills() {
        let pace = Pace::new(10, 2).unwrap();
        let mut bucket = pace.full(7);
        assert!(pace.is_full(bucket, 7));
        assert!(pace.take(&mut bucket, 1, 7) && !pace.is_full(bucket, 7));
        assert!(pace.is_full(bucket, 7 + 100_000_000));
    }

    #[test]
    fn impossible_paces_are_refused() {
        assert!(Pace::new(0, 1).is_err() && Pace::new(1, 0).is_err());
        assert!(Pace::new(1, u64::MAX).is_err() && Pace::new(1, 86_400).is_ok());
        assert!(Pace::new(u64::MAX, u64::MAX).is_ok());
    }
}
