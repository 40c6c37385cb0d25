//! The names that Click's language has for ICMP types and codes.

use crate::icmp::{icmp_type, parameter_problem, redirect, time_exceeded, unreachable};

/// A name and its number.
pub type Name = (&'static str, u8);

/// Names of types.
pub const TYPES: &[Name] = &[
    ("echo-reply", icmp_type::ECHO_REPLY),
    ("unreachable", icmp_type::UNREACHABLE),
    ("sourcequench", icmp_type::SOURCE_QUENCH),
    ("redirect", icmp_type::REDIRECT),
    ("echo", icmp_type::ECHO),
    ("routeradvert", icmp_type::ROUTER_ADVERTISEMENT),
    ("routersolicit", icmp_type::ROUTER_SOLICITATION),
    ("timeexceeded", icmp_type::TIME_EXCEEDED),
    ("parameterproblem", icmp_type::PARAMETER_PROBLEM),
    ("timestamp", icmp_type::TIMESTAMP),
    ("timestamp-reply", icmp_type::TIMESTAMP_REPLY),
    ("inforeq", icmp_type::INFORMATION_REQUEST),
    ("inforeq-reply", icmp_type::INFORMATION_REPLY),
    ("maskreq", icmp_type::MASK_REQUEST),
    ("maskreq-reply", icmp_type::MASK_REPLY),
];

/// Names of the codes of a type; none for types with code 0 only.
#[must_use]
pub const fn codes(icmp_type: u8) -> &'static [Name] {
    match icmp_type {
        icmp_type::UNREACHABLE => UNREACHABLE,
        icmp_type::REDIRECT => REDIRECT,
        icmp_type::TIME_EXCEEDED => TIME_EXCEEDED,
        icmp_type::PARAMETER_PROBLEM => PARAMETER_PROBLEM,
        _ => &[],
    }
}

/// The number that `name` has in `names`.
#[must_use]
pub fn number(names: &[Name], name: &str) -> Option<u8> {
    names.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The name that `number` has in `names`.
#[must_use]
pub fn name(names: &[Name], number: u8) -> Option<&'static str> {
    names.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

const UNREACHABLE: &[Name] = &[
    ("net", unreachable::NET),
    ("host", unreachable::HOST),
    ("protocol", unreachable::PROTOCOL),
    ("port", unreachable::PORT),
    ("needfrag", unreachable::NEED_FRAGMENT),
    ("srcroutefail", unreachable::SOURCE_ROUTE_FAILED),
    ("netunknown", unreachable::NET_UNKNOWN),
    ("hostunknown", unreachable::HOST_UNKNOWN),
    ("isolated", unreachable::SOURCE_ISOLATED),
    ("netprohibited", unreachable::NET_PROHIBITED),
    ("hostprohibited", unreachable::HOST_PROHIBITED),
    ("tosnet", unreachable::NET_TOS),
    ("toshost", unreachable::HOST_TOS),
    ("filterprohibited", unreachable::FILTER_PROHIBITED),
    ("hostprecedence", unreachable::HOST_PRECEDENCE),
    ("precedencecutoff", unreachable::PRECEDENCE_CUTOFF),
];

const REDIRECT: &[Name] = &[
    ("net", redirect::NET),
    ("host", redirect::HOST),
    ("tosnet", redirect::TOS_NET),
    ("toshost", redirect::TOS_HOST),
];

const TIME_EXCEEDED: &[Name] =
    &[("transit", time_exceeded::TRANSIT), ("reassembly", time_exceeded::REASSEMBLY)];

const PARAMETER_PROBLEM: &[Name] = &[
    ("erroratptr", parameter_problem::AT_POINTER),
    ("missingopt", parameter_problem::MISSING_OPTION),
    ("length", parameter_problem::LENGTH),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_are_unique() {
        let tables = (0..=255).map(codes).chain([TYPES]);
        for names in tables {
            for &(text, value) in names {
                assert_eq!(number(names, text), Some(value));
                assert_eq!(name(names, value), Some(text));
            }
        }
        assert_eq!(number(codes(icmp_type::UNREACHABLE), "needfrag"), Some(4));
        assert_eq!((number(TYPES, "ping"), name(TYPES, 200)), (None, None));
    }
}
