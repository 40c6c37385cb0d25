//! Sequence numbers (RFC 9293 section 3.4).

use core::ops::{Add, Sub};

/// A sequence number: counts modulo 2^32. Two of them compare as long as they are less than 2^31
/// apart, which windows of at most 2^30 bytes ensure (RFC 7323 section 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Seq(u32);

impl Seq {
    /// From a header's field, as host value.
    #[must_use]
    #[inline]
    pub const fn new(number: u32) -> Seq {
        Seq(number)
    }

    /// For a header's field, as host value.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// How many numbers it lies behind `from`: "negative" (2^31 and more) when it lies before.
    #[must_use]
    #[inline]
    pub const fn distance(self, from: Seq) -> u32 {
        self.0.wrapping_sub(from.0)
    }

    /// How many numbers `end` lies behind it: 0 when it lies before.
    #[must_use]
    #[inline]
    pub const fn until(self, end: Seq) -> u32 {
        if self.before(end) { end.distance(self) } else { 0 }
    }

    /// Whether it lies before `other`.
    #[must_use]
    #[inline]
    pub const fn before(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether it lies behind `other`.
    #[must_use]
    #[inline]
    pub const fn after(self, other: Seq) -> bool {
        other.before(self)
    }

    /// The one that comes first.
    #[must_use]
    #[inline]
    pub const fn min(self, other: Seq) -> Seq {
        if other.before(self) { other } else { self }
    }

    /// The one that comes last.
    #[must_use]
    #[inline]
    pub const fn max(self, other: Seq) -> Seq {
        if self.before(other) { other } else { self }
    }
}

impl Add<u32> for Seq {
    type Output = Seq;

    #[inline]
    fn add(self, count: u32) -> Seq {
        Seq(self.0.wrapping_add(count))
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;

    #[inline]
    fn sub(self, count: u32) -> Seq {
        Seq(self.0.wrapping_sub(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_is_that_of_plain_numbers(from in any::<u64>(), distance in 0..1u64 << 31) {
            let behind = from.wrapping_add(distance);
            // Truncation is what a header's field does.
            let (a, b) = (Seq::new(from as u32), Seq::new(behind as u32));
            prop_assert_eq!(a.before(b), distance > 0);
            prop_assert_eq!(b.after(a), distance > 0);
            prop_assert!(!b.before(a) && !a.after(b));
            prop_assert_eq!(u64::from(b.distance(a)), distance);
            prop_assert_eq!((u64::from(a.until(b)), b.until(a)), (distance, 0));
            prop_assert_eq!((a.min(b), a.max(b)), (a, b));
            prop_assert_eq!((b.min(a), b.max(a)), (a, b));
            prop_assert_eq!((a + distance as u32, b - distance as u32), (b, a));
        }
    }
}
