//! Leases: a third host, the witness, has at most one of a pair serve while the two are cut off
//! from each other.
//!
//! A host that serves claims its term again and again; a backup claims the next one before it takes
//! over. The witness grants a term for some time, and no later one before that has passed. A host
//! counts the time from before it asked, so its lease ends first.

use crate::term::Term;

/// Longest time that a claim may ask for, milliseconds.
pub const LEASE_MAX_MS: u32 = 10_000;

/// What a host asks of the witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The term in which it serves, or is to serve.
    pub term: Term,
    /// For how long, milliseconds: both hosts ask for the same.
    pub lease_ms: u32,
    /// The answer has the same number.
    pub number: u64,
}

/// What the witness answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The term is the host's for the time that it asked for.
    Granted,
    /// An earlier term is granted still.
    Held,
    /// A later term was granted.
    Over(Term),
}

impl Claim {
    /// Bytes of a claim that travels.
    pub const LEN: usize = Term::LEN + 4 + 8;

    /// As it travels.
    pub fn bytes(self) -> [u8; Claim::LEN] {
        let mut bytes = [0; Claim::LEN];
        bytes[..Term::LEN].copy_from_slice(&self.term.bytes());
        bytes[Term::LEN..Term::LEN + 4].copy_from_slice(&self.lease_ms.to_be_bytes());
        bytes[Term::LEN + 4..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// Of what came; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<Claim> {
        let (term, rest) = bytes.split_at_checked(Term::LEN)?;
        let (lease_ms, number) = rest.split_first_chunk()?;
        let (term, lease_ms) = (Term::parse(term)?, u32::from_be_bytes(*lease_ms));
        let number = u64::from_be_bytes(number.try_into().ok()?);
        (1..=LEASE_MAX_MS).contains(&lease_ms).then_some(Claim { term, lease_ms, number })
    }
}

impl Verdict {
    /// Bytes of a verdict that travels, with the number of its claim.
    pub const LEN: usize = 1 + Term::LEN + 8;

    /// As it travels, about the claim of this number.
    pub fn bytes(self, number: u64) -> [u8; Verdict::LEN] {
        let (kind, term) = match self {
            Verdict::Granted => (0, Term::default()),
            Verdict::Held => (1, Term::default()),
            Verdict::Over(term) => (2, term),
        };
        let mut bytes = [kind; Verdict::LEN];
        bytes[1..=Term::LEN].copy_from_slice(&term.bytes());
        bytes[1 + Term::LEN..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    /// Of what came, and the number of its claim; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<(Verdict, u64)> {
        let (kind, rest) = bytes.split_first()?;
        let (term, number) = rest.split_at_checked(Term::LEN)?;
        let (term, number) = (Term::parse(term)?, u64::from_be_bytes(number.try_into().ok()?));
        match kind {
            0 => Some((Verdict::Granted, number)),
            1 => Some((Verdict::Held, number)),
            2 => Some((Verdict::Over(term), number)),
            _ => None,
        }
    }
}

/// What a witness remembers of a pair. Times are milliseconds since it began.
#[derive(Debug, Default)]
pub struct Leases {
    /// The last term granted, and until when.
    granted: Option<(Term, u64)>,
}

impl Leases {
    /// Decides on a claim. A witness that has just begun does not know what an earlier one granted:
    /// it grants nothing for as long as that may hold.
    pub fn decide(&mut self, claim: Claim, now_ms: u64) -> Verdict {
        let lease_ms = u64::from(claim.lease_ms);
        let (term, until) = self.granted.unwrap_or((claim.term, lease_ms));
        let is_renewed = self.granted.is_some() && claim.term == term;
        if claim.term < term {
            return Verdict::Over(term);
        }
        if !is_renewed && now_ms < until {
            return Verdict::Held;
        }
        self.granted = Some((claim.term, now_ms + lease_ms));
        Verdict::Granted
    }

    /// The last term granted, and whether it still is.
    pub fn granted(&self, now_ms: u64) -> Option<(Term, bool)> {
        self.granted.map(|(term, until)| (term, now_ms < until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(term: u64, lease_ms: u32) -> Claim {
        Claim { term: Term::of_number(term), lease_ms, number: 7 }
    }

    #[test]
    fn a_later_term_waits_for_the_end_of_the_earlier_one() {
        let mut leases = Leases::default();
        assert_eq!(leases.decide(claim(0, 300), 100), Verdict::Held, "the witness has just begun");
        assert_eq!(leases.decide(claim(0, 300), 300), Verdict::Granted);
        assert_eq!(leases.decide(claim(1, 300), 400), Verdict::Held);
        assert_eq!(leases.decide(claim(0, 300), 500), Verdict::Granted, "renewed");
        assert_eq!(leases.decide(claim(1, 300), 799), Verdict::Held);
        assert_eq!(leases.decide(claim(1, 300), 800), Verdict::Granted);
        assert_eq!(leases.decide(claim(0, 300), 801), Verdict::Over(Term::of_number(1)));
        assert_eq!(leases.decide(claim(0, 300), 9999), Verdict::Over(Term::of_number(1)));
        assert_eq!(leases.granted(1099), Some((Term::of_number(1), true)));
        assert_eq!(leases.granted(1100), Some((Term::of_number(1), false)));
    }

    proptest! {
        /// Whoever claims when, and however often the witness begins anew: at no time are two terms
        /// granted.
        #[test]
        fn no_two_terms_are_granted_at_once(
            steps in prop::collection::vec((0u64..3, 0u64..200, prop::bool::weighted(0.1)), 1..200),
        ) {
            const LEASE: u32 = 150;
            let (mut leases, mut begun, mut now) = (Leases::default(), 0, 0);
            let mut until = [0u64; 3];
            for (term, pause, is_restarted) in steps {
                now += pause;
                if is_restarted {
                    (leases, begun) = (Leases::default(), now);
                }
                if leases.decide(claim(term, LEASE), now - begun) == Verdict::Granted {
                    let others = (0..3).filter(|other| *other != term);
                    prop_assert!(others.clone().all(|other| until[other as usize] <= now));
                    until[term as usize] = now + u64::from(LEASE);
                }
            }
        }

        #[test]
        fn claims_and_verdicts_come_as_they_were_sent(
            term in 0u64..1 << 40, lease_ms in 1..=LEASE_MAX_MS, number: u64, kind in 0usize..3,
        ) {
            let claim = Claim { term: Term::of_number(term), lease_ms, number };
            prop_assert_eq!(Claim::parse(&claim.bytes()), Some(claim));
            let verdict = [Verdict::Granted, Verdict::Held, Verdict::Over(claim.term)][kind];
            prop_assert_eq!(Verdict::parse(&verdict.bytes(number)), Some((verdict, number)));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            let claim = Claim::parse(&bytes);
            prop_assert!(claim.is_none_or(|claim| claim.lease_ms <= LEASE_MAX_MS));
            Verdict::parse(&bytes);
        }
    }
}
