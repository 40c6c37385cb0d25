//! A token bucket: what elements that keep to a rate count with.

/// Nanoseconds in a second: levels are kept in billionths of a token, so that refilling is exact.
const NANO: u64 = 1_000_000_000;

/// A bucket that fills at `rate` tokens a second up to `capacity`, and may be overdrawn.
///
/// A token is a packet or a byte, as its owner likes. Time comes from the owner as nanoseconds
/// ([`thruway_element::Cx::now`]); the same times give the same answers. A rate of 0 never fills.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    rate: u64,
    capacity: u64,
    /// Billionths of a token; negative while overdrawn.
    level: i128,
    /// Time of the last refill; `None` before the first.
    last: Option<i64>,
}

fn nano(tokens: u64) -> i128 {
    i128::from(tokens) * i128::from(NANO)
}

impl TokenBucket {
    /// A full bucket for `rate` tokens a second, `capacity` of which it can hold.
    pub(crate) fn new(rate: u64, capacity: u64) -> TokenBucket {
        TokenBucket { rate, capacity, level: nano(capacity), last: None }
    }

    /// Tokens a second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Most tokens it holds.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Changes rate and capacity from now on; tokens beyond the new capacity are lost.
    pub(crate) fn set_rate(&mut self, rate: u64, capacity: u64) {
        (self.rate, self.capacity) = (rate, capacity);
        self.level = self.level.min(nano(capacity));
    }

    /// Sets the number of tokens in it, at most its capacity.
    pub(crate) fn set_tokens(&mut self, tokens: u64) {
        self.level = nano(tokens.min(self.capacity));
    }

    /// Whole tokens in it, 0 while overdrawn.
    pub(crate) fn tokens(&self) -> u64 {
        u64::try_from(self.level.max(0) / i128::from(NANO)).unwrap_or(u64::MAX)
    }

    /// Adds what has come since the last refill. A clock that went back adds nothing.
    pub(crate) fn refill(&mut self, now: i64) {
        let elapsed = now.saturating_sub(self.last.unwrap_or(now)).max(0);
        self.last = Some(now);
        // At most 2^63 times 2^64: fits.
        let gained = i128::from(elapsed) * i128::from(self.rate);
        self.level = self.level.saturating_add(gained).min(nano(self.capacity));
    }

    /// Takes `tokens` if there are as many.
    pub(crate) fn take(&mut self, tokens: u64) -> bool {
        let enough = self.level >= nano(tokens);
        if enough {
            self.level -= nano(tokens);
        }
        enough
    }

    /// Takes `tokens` even if there are fewer: the rest is owed and refilled first.
    pub(crate) fn spend(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(nano(tokens));
    }

    /// When it will hold `tokens`, if nothing is taken meanwhile: the time of the last refill when
    /// it does already, `None` when it never will.
    pub(crate) fn ready_at(&self, tokens: u64) -> Option<i64> {
        let last = self.last.unwrap_or(0);
        let lacking = nano(tokens) - self.level;
        if lacking <= 0 {
            return Some(last);
        }
        if self.rate == 0 || tokens > self.capacity {
            return None;
        }
        let rate = i128::from(self.rate);
        let wait = (lacking + rate - 1) / rate;
        Some(last.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fills_at_its_rate_up_to_its_capacity() {
        let mut bucket = TokenBucket::new(1000, 5);
        bucket.refill(1_000_000_000);
        for _ in 0..5 {
            assert!(bucket.take(1));
        }
        assert!(!bucket.take(1));
        assert_eq!(bucket.ready_at(1), Some(1_001_000_000));
        bucket.refill(1_000_999_999);
        assert!(!bucket.take(1));
        bucket.refill(1_001_000_000);
        assert!(bucket.take(1) && !bucket.take(1));
        bucket.refill(9_000_000_000);
        assert_eq!(bucket.tokens(), 5);
    }

    #[test]
    fn debts_are_paid_first() {
        let mut bucket = TokenBucket::new(100, 10);
        bucket.refill(0);
        bucket.spend(30);
        assert_eq!((bucket.tokens(), bucket.ready_at(1)), (0, Some(210_000_000)));
        bucket.refill(200_000_000);
        assert!(!bucket.take(1));
        bucket.refill(210_000_000);
        assert!(bucket.take(1));
    }

    #[test]
    fn what_never_comes() {
        let mut bucket = TokenBucket::new(0, 4);
        bucket.refill(7);
        assert_eq!(bucket.ready_at(4), Some(7));
        assert!(bucket.take(4));
        bucket.refill(i64::MAX);
        assert_eq!((bucket.tokens(), bucket.ready_at(1)), (0, None));
        bucket.set_rate(10, 4);
        assert_eq!(bucket.ready_at(5), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut bucket = TokenBucket::new(u64::MAX, u64::MAX);
        bucket.refill(i64::MIN);
        bucket.spend(u64::MAX);
        bucket.spend(u64::MAX);
        bucket.refill(i64::MAX);
        bucket.refill(i64::MIN);
        assert!(bucket.ready_at(u64::MAX).is_some());
        bucket.set_rate(1, 3);
        bucket.set_tokens(9);
        assert_eq!((bucket.tokens(), bucket.rate(), bucket.capacity()), (3, 1, 3));
    }

    proptest! {
        /// Never more than capacity + rate * time, and no less when somebody always takes.
        #[test]
        fn keeps_the_rate(rate in 1u64..1_000_000, capacity in 1u64..100, steps in 1usize..200,
                          step in 1i64..10_000_000) {
            let mut bucket = TokenBucket::new(rate, capacity);
            let (mut taken, mut lost) = (0u128, false);
            for at in 0..steps as i64 {
                bucket.refill(at * step);
                lost |= at > 0 && bucket.tokens() == capacity;
                while bucket.take(1) {
                    taken += 1;
                }
            }
            let time = (steps as i64 - 1) * step;
            let allowed = u128::from(capacity) + u128::from(rate) * time as u128 / 1_000_000_000;
            prop_assert!(taken <= allowed);
            prop_assert!(lost || taken == allowed);
        }

        /// `ready_at` is the first moment at which `take` works.
        #[test]
        fn ready_at_is_exact(rate in 1u64..10_000_000, tokens in 1u64..50, spent in 0u64..500) {
            let mut bucket = TokenBucket::new(rate, 50);
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
