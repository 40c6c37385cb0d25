//! How long a cycle takes, as a multiplier and a shift.

/// Bits of the multiplier behind the binary point.
///
/// A multiplier that is off by one makes less than a nanosecond a day at 3 GHz; and a counter of
/// 100 kHz still fits.
const SHIFT: u32 = 48;

/// Nanoseconds per cycle: never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// A nanosecond per cycle.
    pub(crate) const ONE: Rate = Rate(1 << SHIFT);

    /// From a stretch of time and the cycles that passed in it; `None` of nonsense.
    pub fn of(nanoseconds: i64, cycles: u64) -> Option<Rate> {
        let ns = u64::try_from(nanoseconds).ok()?;
        let mult = (u128::from(ns) << SHIFT).checked_div(u128::from(cycles))?;
        Rate::from_word(u64::try_from(mult).ok()?)
    }

    /// The time that so many cycles take, in nanoseconds.
    ///
    /// The product of two 64-bit words has 128 bits: one multiplication of the processor, and no
    /// number of cycles is too large for it. (With 64 bits only, as in the thesis, a few seconds
    /// are.)
    #[inline]
    pub fn ns(self, cycles: u64) -> i64 {
        ((u128::from(cycles) * u128::from(self.0)) >> SHIFT) as i64
    }

    /// The cycles that so much time takes, rounded down; at most `u64::MAX`.
    pub fn cycles(self, nanoseconds: u64) -> u64 {
        u64::try_from((u128::from(nanoseconds) << SHIFT) / u128::from(self.0)).unwrap_or(u64::MAX)
    }

    /// Cycles per second, rounded.
    pub fn hertz(self) -> u64 {
        self.cycles(1_000_000_000)
    }

    /// This rate moved towards `other` by `1 / parts` of the difference.
    #[must_use]
    pub(crate) fn towards(self, other: Rate, parts: u64) -> Rate {
        let step = self.0.abs_diff(other.0) / parts.max(1);
        let to = if other.0 > self.0 { self.0 + step } else { self.0 - step };
        Rate(to.max(1))
    }

    /// This rate such that in `within` nanoseconds `ahead` more of them pass (fewer, if negative);
    /// neither faster nor slower than by `1 / bound`.
    #[must_use]
    pub(crate) fn slewed(self, ahead: i64, within: i64, bound: u64) -> Rate {
        let most = self.0 / bound.max(1);
        let wanted = u128::from(self.0) * u128::from(ahead.unsigned_abs())
            / u128::from(within.unsigned_abs().max(1));
        let change = u64::try_from(wanted).map_or(most, |wanted| wanted.min(most));
        let to = if ahead > 0 { self.0.saturating_add(change) } else { self.0 - change };
        Rate(to.max(1))
    }

    /// Deviation from `other` in parts per million, as an absolute value.
    pub fn ppm_from(self, other: Rate) -> u64 {
        let off = u128::from(self.0.abs_diff(other.0)) * 1_000_000 / u128::from(other.0);
        u64::try_from(off).unwrap_or(u64::MAX)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn from_word(word: u64) -> Option<Rate> {
        (word > 0).then_some(Rate(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_gigahertz() {
        let rate = Rate::of(1_000_000_000, 3_000_000_000).expect("a rate");
        assert_eq!(rate.hertz(), 3_000_000_000);
        // Off by less than a nanosecond in a day.
        assert!((rate.ns(86_400 * 3_000_000_000) - 86_400_000_000_000).abs() <= 1);
        assert_eq!((Rate::of(1, 0), Rate::of(0, 1), Rate::of(-5, 1)), (None, None, None));
        assert_eq!(Rate::of(i64::MAX, 1), None);
    }

    #[test]
    fn a_slewed_rate_catches_up_within_bounds() {
        let rate = Rate::of(1_000_000_000, 2_000_000_000).expect("a rate");
        let second = 2_000_000_000;
        assert!((rate.slewed(500, 1_000_000_000, 8).ns(second) - 1_000_000_500).abs() <= 1);
        assert!((rate.slewed(-500, 1_000_000_000, 8).ns(second) - 999_999_500).abs() <= 1);
        assert!((rate.slewed(i64::MIN, 1_000_000_000, 8).ns(second) - 875_000_000).abs() <= 1);
        assert!((rate.slewed(i64::MAX, 1_000_000_000, 8).ns(second) - 1_125_000_000).abs() <= 1);
    }

    proptest! {
        /// The oracle is long division.
        #[test]
        fn multiply_and_shift_is_division(
            hertz in 100_000u64..20_000_000_000,
            seconds in 0u64..100_000,
            part in 0u64..1_000_000_000,
        ) {
            let rate = Rate::of(1_000_000_000_000, hertz * 1000).expect("a rate");
            let part = u128::from(hertz) * u128::from(part) / 1_000_000_000;
            let cycles = hertz * seconds + part as u64;
            let exact = u128::from(cycles) * 1_000_000_000 / u128::from(hertz);
            let off = (i128::from(rate.ns(cycles)) - exact as i128).abs();
            // The multiplier is rounded down.
            let bound = 2 + exact / u128::from(rate.0);
            prop_assert!(off as u128 <= bound, "{off} ns in {seconds} s at {hertz} Hz");
            prop_assert!(rate.hertz().abs_diff(hertz) <= 1 + hertz / 1_000_000_000);
        }

        #[test]
        fn no_rate_panics(
            word in 1u64.., other in 1u64.., cycles: u64, ahead: i64, within: i64, parts: u64,
        ) {
            let (rate, other) = (Rate(word), Rate(other));
            let _ = (rate.ns(cycles), rate.cycles(cycles), rate.ppm_from(other));
            prop_assert!(rate.towards(other, parts).0 > 0);
            prop_assert!(rate.slewed(ahead, within, parts).0 > 0);
        }
    }
}
