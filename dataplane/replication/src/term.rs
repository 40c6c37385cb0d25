//! Terms: which of the two hosts serves the traffic.
//!
//! A term is a number that only grows. Each change of the host that serves begins the next one, and
//! a term belongs to one side alone: even ones to the host that connects, odd ones to the host that
//! listens. So two hosts that know the same term agree on who serves, and the greater of two terms
//! is right.

/// Which end of the connection a host is, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It connects (TO), and serves in term 0.
    Caller,
    /// It listens (LISTEN).
    Listener,
}

/// Greatest term that another host may claim: there is always a next one.
const TERM_MAX: u64 = u64::MAX >> 1;

/// The number of a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(u64);

impl Term {
    /// Bytes of a term that travels.
    pub const LEN: usize = 8;

    /// Whose term it is.
    pub fn server(self) -> Side {
        if self.0.is_multiple_of(2) { Side::Caller } else { Side::Listener }
    }

    /// The next one: of the other host.
    #[must_use]
    pub fn next(self) -> Term {
        Term(self.0.saturating_add(1))
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The term of a number that this process wrote.
    pub(crate) fn of_number(number: u64) -> Term {
        Term(number)
    }

    /// As it travels.
    pub fn bytes(self) -> [u8; Term::LEN] {
        self.0.to_be_bytes()
    }

    /// Of what came; `None` if it is no term.
    pub fn parse(bytes: &[u8]) -> Option<Term> {
        let number = u64::from_be_bytes(bytes.try_into().ok()?);
        (number <= TERM_MAX).then_some(Term(number))
    }
}

/// What a host says of itself when a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The last term that it knows of.
    pub term: Term,
    /// Whether it serves, or has had all sessions of the host that does: not of a host that has
    /// just been started.
    pub has_sessions: bool,
}

impl Standing {
    /// Bytes of a standing that travels.
    pub const LEN: usize = Term::LEN + 1;

    /// As it travels.
    pub fn bytes(self) -> [u8; Standing::LEN] {
        let mut bytes = [0; Standing::LEN];
        bytes[..Term::LEN].copy_from_slice(&self.term.bytes());
        bytes[Term::LEN] = u8::from(self.has_sessions);
        bytes
    }

    /// Of what came, and what follows; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<(Standing, &[u8])> {
        let (term, rest) = bytes.split_at_checked(Term::LEN)?;
        let (has_sessions, rest) = rest.split_first()?;
        let term = Term::parse(term)?;
        (*has_sessions <= 1).then_some((Standing { term, has_sessions: *has_sessions == 1 }, rest))
    }
}

/// The term of two hosts that meet: the greater one. But a host that has just been started does not
/// serve if the other one has the sessions.
pub fn settle(caller: Standing, listener: Standing) -> Term {
    let term = caller.term.max(listener.term);
    let (server, other) = match term.server() {
        Side::Caller => (caller, listener),
        Side::Listener => (listener, caller),
    };
    if other.has_sessions && !server.has_sessions { term.next() } else { term }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn standing(term: u64, has_sessions: bool) -> Standing {
        Standing { term: Term(term), has_sessions }
    }

    #[test]
    fn whoever_has_the_sessions_serves() {
        let settled = |caller, listener| settle(caller, listener).number();
        assert_eq!(settled(standing(0, false), standing(0, false)), 0, "both begin");
        assert_eq!(settled(standing(0, true), standing(0, false)), 0, "the backup begins");
        assert_eq!(settled(standing(0, true), standing(0, true)), 0, "the cable was cut");
        assert_eq!(settled(standing(0, false), standing(0, true)), 1, "the active host began anew");
        assert_eq!(settled(standing(0, true), standing(1, true)), 1, "the backup took over");
        assert_eq!(settled(standing(1, true), standing(0, false)), 2, "and then began anew");
        assert_eq!(settled(standing(3, false), standing(0, false)), 3, "nobody has any");
    }

    proptest! {
        #[test]
        fn a_settled_term_is_never_less_and_settles_again_as_itself(
            caller in (0..=TERM_MAX, any::<bool>()),
            listener in (0..=TERM_MAX, any::<bool>()),
        ) {
            let (caller, listener) =
                (standing(caller.0, caller.1), standing(listener.0, listener.1));
            let term = settle(caller, listener);
            prop_assert!(term >= caller.term.max(listener.term));
            let serves = |side| term.server() == side;
            let again = settle(
                Standing { term, has_sessions: caller.has_sessions || serves(Side::Caller) },
                Standing { term, has_sessions: listener.has_sessions || serves(Side::Listener) },
            );
            prop_assert_eq!(again, term);
        }

        #[test]
        fn standings_come_as_they_were_sent(term in 0..=TERM_MAX, has_sessions: bool, rest: [u8; 3]) {
            let sent = standing(term, has_sessions);
            let bytes = [&sent.bytes()[..], &rest].concat();
            prop_assert_eq!(Standing::parse(&bytes), Some((sent, &rest[..])));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some((standing, _)) = Standing::parse(&bytes) {
                prop_assert!(standing.term.number() <= TERM_MAX);
            }
        }
    }
}
