//! Rates as Click's counters measure them: exponentially weighted moving averages.

/// Epochs a second: counts are collected for a millisecond, then enter the average.
const EPOCHS: u64 = 1_000;
/// Nanoseconds in an epoch.
const EPOCH: i64 = 1_000_000;
/// A new epoch's count has a weight of 2^-4.
const STABILITY: u32 = 4;
/// After so many empty epochs the average is 0 (15/16 to the 100th is less than a thousandth).
const FORGOTTEN: i64 = 100;

/// A rate: events a second, averaged over about 16 milliseconds.
#[derive(Debug, Clone)]
pub struct Rate {
    /// Bits of fraction in `average`.
    scale: u32,
    epoch: Option<i64>,
    current: u64,
    average: i64,
}

impl Rate {
    /// A rate of 0 that keeps `scale` bits of fraction an epoch.
    pub fn new(scale: u32) -> Rate {
        Rate { scale, epoch: None, current: 0, average: 0 }
    }

    /// Adds events at time `now` (nanoseconds).
    #[inline]
    pub fn update(&mut self, now: i64, events: u64) {
        let epoch = now.div_euclid(EPOCH);
        if self.epoch != Some(epoch) {
            self.turn(epoch);
        }
        self.current = self.current.saturating_add(events);
    }

    fn turn(&mut self, epoch: i64) {
        let passed = epoch.saturating_sub(self.epoch.unwrap_or(epoch));
        if passed > 0 {
            self.observe(self.current);
            if passed > FORGOTTEN {
                self.average = 0;
            } else {
                (1..passed).for_each(|_| self.observe(0));
            }
            self.current = 0;
        }
        self.epoch = Some(epoch);
    }

    /// Takes so many events as having come evenly since the last epoch, up to that of time `now`.
    pub fn spread(&mut self, now: i64, events: u64) {
        let epoch = now.div_euclid(EPOCH);
        let passed = epoch.saturating_sub(self.epoch.unwrap_or(epoch)).max(0);
        if passed > 0 {
            let (each, rest) = (events / passed as u64, events % passed as u64);
            // Those long past have faded.
            for nth in passed.saturating_sub(FORGOTTEN).max(0)..passed {
                self.observe(each + u64::from((nth as u64) < rest));
            }
            self.epoch = Some(epoch);
        } else if self.epoch.is_none() {
            self.epoch = Some(epoch);
        }
    }

    /// Whether the time of another epoch has come.
    #[inline]
    pub fn is_over(&self, now: i64) -> bool {
        self.epoch.is_none_or(|epoch| epoch < now.div_euclid(EPOCH))
    }

    /// Events a second as of the last update, in decimal.
    pub fn text(&self) -> String {
        fixed_point(self.average.max(0) as u64 * EPOCHS, self.scale)
    }

    fn observe(&mut self, events: u64) {
        // The half unit makes up for rounding down.
        let scaled =
            (events.min(u64::from(u32::MAX)) << self.scale) as i64 + (1 << (STABILITY - 1));
        self.average += (scaled - self.average) >> STABILITY;
    }

    /// Whether the average at the last update is at least so many events a second.
    pub fn reaches(&self, per_second: u64) -> bool {
        i128::from(self.average) >= i128::from(per_second) * (1 << self.scale) / i128::from(EPOCHS)
    }

    /// Events a second at time `now`, times `factor`, in decimal.
    pub fn unparse(&mut self, now: i64, factor: u64) -> String {
        self.update(now, 0);
        fixed_point(self.average.max(0) as u64 * EPOCHS * factor, self.scale)
    }
}

/// `value` / 2^`bits` in decimal, with the fewest digits that distinguish it from its neighbours.
pub fn fixed_point(value: u64, bits: u32) -> String {
    let (whole, part) = (value >> bits, value & ((1 << bits) - 1));
    let mut power = 1u64;
    while part > 0 && power < 1_000_000_000 {
        power *= 10;
        let half = 1u64 << (bits - 1);
        let digits = (part * power + half) >> bits;
        // Whether these digits lead back to the same value.
        if ((digits << bits) + power / 2) / power == part && digits < power {
            let width = power.ilog10() as usize;
            return format!("{whole}.{digits:0width$}");
        }
    }
    whole.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_short_and_exact() {
        assert_eq!(fixed_point(0, 10), "0");
        assert_eq!(fixed_point(3 << 10, 10), "3");
        assert_eq!(fixed_point((1 << 8) * 418 / 1000, 8), "0.418");
        assert_eq!(fixed_point(512, 10), "0.5");
        assert_eq!(fixed_point(32767, 16), "0.49998");
    }

    #[test]
    fn a_steady_stream_has_its_rate() {
        let mut rate = Rate::new(10);
        for ms in 0..1_000 {
            rate.update(ms * EPOCH, 5);
        }
        let text = rate.unparse(1_000 * EPOCH, 1);
        let value: f64 = text.parse().unwrap();
        assert!((4_990.0..5_010.0).contains(&value), "{text}");
        assert_eq!(rate.unparse(2_000 * EPOCH, 1), "0");
    }

    #[test]
    fn it_fades_as_click_says() {
        let mut rate = Rate::new(10);
        rate.update(0, 16);
        // One epoch later: 16 / 16 per millisecond.
        assert_eq!(rate.unparse(EPOCH, 1), "1000");
        assert_eq!(rate.unparse(EPOCH, 8), "8000");
        // Clocks that go back change nothing.
        assert_eq!(rate.unparse(0, 1), "1000");
    }
}
