//! Features: additions to the interface within one [`VERSION`](crate::VERSION), and the agreement
//! of a host and a Worker on them.
//!
//! A HELLO names the features that the Worker knows, and the ones that it needs. Its WELCOME names
//! the features in force: those that both know. They stand in the last word of the head, which was
//! 0 and ignored before there were features. So an earlier host or Worker knows none.
//!
//! | bits | HELLO | WELCOME |
//! |---|---|---|
//! | 0 to 15 | features that the Worker knows | features in force |
//! | 16 to 31 | of those the ones that it needs | with `workers` in force, Workers beyond the first; else 0 |
//!
//! A host ignores features that it does not know, and refuses a Worker that needs one of them. A
//! host from before there were features ignores the word. Its WELCOME puts none into force, so a
//! Worker that needs one ends by itself.

use core::fmt;
use core::ops::BitOr;

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(u16);

impl Features {
    /// No feature.
    pub const NONE: Features = Features(0);
    /// The names of outputs' roles come with the WELCOME.
    pub const ROLES: Features = Features(1);
    /// The function can be several Workers, each with a control region and links of its own: the
    /// WELCOME says how many.
    pub const WORKERS: Features = Features(2);
    /// All that this side knows.
    pub const ALL: Features = Features(Features::ROLES.0 | Features::WORKERS.0);

    /// Names, from bit 0 on.
    const NAMES: [&str; 2] = ["roles", "workers"];

    /// The features of these bits, known here or not.
    pub const fn from_bits(bits: u16) -> Features {
        Features(bits)
    }

    /// Their bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of the other set are in this one.
    pub const fn contains(self, other: Features) -> bool {
        other.0 & !self.0 == 0
    }

    /// Those that are in both.
    pub const fn and(self, other: Features) -> Features {
        Features(self.0 & other.0)
    }

    /// Those that are not in the other set.
    pub const fn without(self, other: Features) -> Features {
        Features(self.0 & !other.0)
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        let mut between = "";
        for bit in (0..u16::BITS as usize).filter(|bit| self.0 & 1 << bit != 0) {
            f.write_str(between)?;
            match Features::NAMES.get(bit) {
                Some(name) => f.write_str(name)?,
                None => write!(f, "number {bit}")?,
            }
            between = ", ";
        }
        Ok(())
    }
}

/// What a Worker declares of features in its HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offer {
    /// Those that it knows.
    pub known: Features,
    /// Those of them that it cannot do without.
    pub needed: Features,
}

/// Why a host and a Worker do not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disagreement {
    /// The Worker needs features that its host does not have.
    Lacking(Features),
    /// The Worker needs features that it does not know itself.
    NeedsUnknown(Features),
    /// The host put features into force that the Worker did not offer.
    NotOffered(Features),
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::Lacking(lacking) => write!(
                f,
                "it needs features of the function interface that the Thruway which runs it does \
                 not have ({lacking}): run it with the Thruway that its library is from or a later \
                 one, or build it without what needs them"
            ),
            Disagreement::NeedsUnknown(needed) => write!(
                f,
                "it needs features of the function interface that it does not know itself \
                 ({needed}): build it with an unchanged library"
            ),
            Disagreement::NotOffered(features) => write!(
                f,
                "the host put features of the function interface into force that this function \
                 did not offer ({features})"
            ),
        }
    }
}

impl core::error::Error for Disagreement {}

impl Offer {
    /// Everything of this side, needing none of it.
    pub const ALL: Offer = Offer { known: Features::ALL, needed: Features::NONE };

    /// The same of a function that is one Worker: it has one control region and serves all links.
    pub const ONE_WORKER: Offer =
        Offer { known: Features::ALL.without(Features::WORKERS), needed: Features::NONE };

    /// As the last word of a HELLO's head.
    pub const fn to_word(self) -> u32 {
        self.known.0 as u32 | (self.needed.0 as u32) << 16
    }

    /// From that word; any word is some offer.
    pub const fn from_word(word: u32) -> Offer {
        Offer { known: Features(word as u16), needed: Features((word >> 16) as u16) }
    }

    /// The host's decision: the features in force with a host that has these.
    ///
    /// # Errors
    /// The Worker contradicts itself, or needs what the host does not have.
    pub fn agree(self, host: Features) -> Result<Features, Disagreement> {
        if !self.known.contains(self.needed) {
            return Err(Disagreement::NeedsUnknown(self.needed.without(self.known)));
        }
        if !host.contains(self.needed) {
            return Err(Disagreement::Lacking(self.needed.without(host)));
        }
        Ok(self.known.and(host))
    }

    /// The Worker's look at what its host put into force.
    ///
    /// # Errors
    /// It was not offered, or lacks what the Worker needs.
    pub fn accept(self, in_force: Features) -> Result<(), Disagreement> {
        if !self.known.contains(in_force) {
            return Err(Disagreement::NotOffered(in_force.without(self.known)));
        }
        if !in_force.contains(self.needed) {
            return Err(Disagreement::Lacking(self.needed.without(in_force)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString as _;

    /// All sets of four features.
    fn sets() -> impl Iterator<Item = Features> + Clone {
        (0..16).map(Features)
    }

    #[test]
    fn names_are_those_of_the_known_bits() {
        assert_eq!(Features::ALL.bits().count_ones() as usize, Features::NAMES.len());
        assert_eq!(Features::ALL.bits().trailing_ones(), Features::ALL.bits().count_ones());
        assert_eq!(Features::NONE.to_string(), "none");
        assert_eq!((Features::ROLES | Features(1 << 15)).to_string(), "roles, number 15");
    }

    #[test]
    fn words_are_read_back() {
        for word in [0, 1, 0x8000_0001, 0x1234_5678, u32::MAX] {
            assert_eq!(Offer::from_word(word).to_word(), word);
        }
        // The word of a Worker from before there were features.
        assert_eq!(Offer::from_word(0), Offer::default());
    }

    /// Every Worker with every host: they agree exactly when the host has what the Worker needs,
    /// and on what both know; and the Worker accepts what its host decided.
    #[test]
    fn all_combinations_agree_or_say_why() {
        for (known, needed) in sets().flat_map(|known| sets().map(move |needed| (known, needed))) {
            let offer = Offer { known, needed };
            for host in sets() {
                let agreed = offer.agree(host);
                if needed.0 & !known.0 != 0 {
                    assert_eq!(
                        agreed,
                        Err(Disagreement::NeedsUnknown(Features(needed.0 & !known.0)))
                    );
                } else if needed.0 & !host.0 != 0 {
                    assert_eq!(agreed, Err(Disagreement::Lacking(Features(needed.0 & !host.0))));
                } else {
                    assert_eq!(agreed, Ok(Features(known.0 & host.0)));
                    assert_eq!(offer.accept(Features(known.0 & host.0)), Ok(()));
                }
            }
        }
    }

    /// Whatever a host puts into force, a Worker works with what it offered and needs alone.
    #[test]
    fn a_worker_accepts_what_it_offered_and_needs() {
        for (known, needed) in sets().flat_map(|known| sets().map(move |needed| (known, needed))) {
            let offer = Offer { known, needed };
            for in_force in sets() {
                let expected = in_force.0 & !known.0 == 0 && needed.0 & !in_force.0 == 0;
                assert_eq!(offer.accept(in_force).is_ok(), expected, "{offer:?} {in_force:?}");
            }
        }
    }

    /// A host from before there were features answers 0: it is one that has none.
    #[test]
    fn hosts_and_workers_from_before_have_no_features() {
        assert_eq!(Offer::default().agree(Features::ALL), Ok(Features::NONE));
        assert_eq!(Offer::ALL.accept(Features::NONE), Ok(()));
        let picky = Offer { needed: Features::ROLES, ..Offer::ALL };
        assert_eq!(picky.accept(Features::NONE), Err(Disagreement::Lacking(Features::ROLES)));
    }
}
