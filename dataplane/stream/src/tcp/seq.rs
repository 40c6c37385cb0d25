//! Sequence numbers.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A sequence number: arithmetic is modulo 2^32 (RFC 9293 section 3.4), and which of two comes
/// first is told by the shorter way around (RFC 1982 section 3.2). So there is no total order, and
/// of two numbers half the circle apart neither is before the other.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(transparent)]
pub struct Seq(pub u32);

impl Seq {
    /// `n` further on.
    #[inline]
    #[must_use]
    pub fn plus(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }

    /// `n` back.
    #[inline]
    #[must_use]
    pub fn minus(self, n: u32) -> Seq {
        Seq(self.0.wrapping_sub(n))
    }

    /// From `from` to here by the shorter way: negative when this comes first.
    #[inline]
    #[must_use]
    pub fn since(self, from: Seq) -> i32 {
        self.0.wrapping_sub(from.0) as i32
    }

    /// Whether this comes before `other`.
    #[inline]
    #[must_use]
    pub fn is_before(self, other: Seq) -> bool {
        other.since(self) > 0
    }

    /// Whether this comes before `other` or is the same.
    #[inline]
    #[must_use]
    pub fn is_up_to(self, other: Seq) -> bool {
        other.since(self) >= 0
    }

    /// How far `end` lies behind this; 0 when it comes first.
    #[inline]
    #[must_use]
    pub fn to(self, end: Seq) -> u32 {
        end.since(self).max(0) as u32
    }

    /// The later of the two.
    #[inline]
    #[must_use]
    pub fn later(self, other: Seq) -> Seq {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[inline]
    #[must_use]
    pub fn earlier(self, other: Seq) -> Seq {
        if other.is_before(self) { other } else { self }
    }
}

impl From<u32> for Seq {
    fn from(number: u32) -> Seq {
        Seq(number)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn around_the_end() {
        let (last, first) = (Seq(u32::MAX), Seq(0));
        assert_eq!((last.plus(1), first.minus(1)), (first, last));
        assert!(last.is_before(first) && !first.is_before(last));
        assert_eq!((first.since(last), last.since(first)), (1, -1));
        assert_eq!((last.to(Seq(9)), Seq(9).to(last)), (10, 0));
        assert_eq!((last.later(first), first.later(last)), (first, first));
        assert_eq!((last.earlier(first), first.earlier(last)), (last, last));
    }

    #[test]
    fn half_the_circle_away_nothing_comes_first() {
        let (here, there) = (Seq(7), Seq(7).plus(1 << 31));
        assert!(!here.is_before(there) && !there.is_before(here));
        assert!(!here.is_up_to(there) && !there.is_up_to(here));
        assert!(here.is_before(there.minus(1)) && there.plus(1).is_before(here));
    }

    proptest! {
        /// As plain numbers compare when the circle is cut open elsewhere.
        #[test]
        fn as_plain_numbers(at in any::<u32>(), a in 0u32..1 << 31, b in 0u32..1 << 31) {
            let (left, right) = (Seq(at).plus(a), Seq(at).plus(b));
            prop_assert_eq!(left.is_before(right), a < b);
            prop_assert_eq!(left.is_up_to(right), a <= b);
            prop_assert_eq!(left.since(right), a as i32 - b as i32);
            prop_assert_eq!(left.to(right), b.saturating_sub(a));
            prop_assert_eq!(left.later(right), Seq(at).plus(a.max(b)));
            prop_assert_eq!(left.earlier(right), Seq(at).plus(a.min(b)));
            prop_assert_eq!(left.plus(b).minus(b), left);
        }
    }
}
