//! Addresses and ports as sorted ranges.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::rules::ast::{Arrow, End, Rule};
use crate::rules::ends::{AddressRange, PortRange, Spec};
use crate::rules::error::Reason;
use crate::rules::variables::{Known, REFERENCES_MAX, Variables};

/// Most ranges that one end may come to.
const RANGES_MAX: usize = 65_536;

/// Numbers in sorted ranges that do not touch each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(in crate::rules) struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    fn all(max: u128) -> Ranges {
        Ranges(vec![(0, max)])
    }

    /// Sorts and joins.
    fn new(mut ranges: Vec<(u128, u128)>) -> Ranges {
        ranges.sort_unstable();
        let mut joined: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => joined.push((first, last)),
            }
        }
        Ranges(joined)
    }

    fn union(mut self, other: Ranges) -> Ranges {
        self.0.extend(other.0);
        Ranges::new(self.0)
    }

    /// What is not in it.
    fn complement(&self, max: u128) -> Ranges {
        let (mut from, mut rest) = (Some(0), Vec::with_capacity(self.0.len() + 1));
        for &(first, last) in &self.0 {
            if let Some(from) = from.filter(|from| *from < first) {
                rest.push((from, first - 1));
            }
            from = last.checked_add(1).filter(|next| *next <= max);
        }
        rest.extend(from.map(|from| (from, max)));
        Ranges(rest)
    }

    fn minus(self, other: &Ranges, max: u128) -> Ranges {
        let both = self.complement(max).union(other.clone());
        both.complement(max)
    }

    /// Whether a number is in it.
    pub(in crate::rules) fn contains(&self, number: u128) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after > 0 && self.0[after - 1].1 >= number
    }
}

/// Addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(in crate::rules) struct Addresses {
    v4: Ranges,
    v6: Ranges,
}

impl Addresses {
    /// Whether an address is one of them.
    pub(in crate::rules) fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(address.to_bits().into()),
            IpAddr::V6(address) => self.v6.contains(address.to_bits()),
        }
    }
}

/// What sets of things can do.
pub(in crate::rules) trait Set: Sized {
    type One: Known;

    fn everything() -> Self;
    fn nothing() -> Self;
    fn one(one: &Self::One) -> Self;
    fn union(self, other: Self) -> Self;
    fn minus(self, other: &Self) -> Self;
    fn ranges(&self) -> usize;
}

const PORT_MAX: u128 = u16::MAX as u128;
const V4_MAX: u128 = u32::MAX as u128;

impl Set for Ranges {
    type One = PortRange;

    fn everything() -> Ranges {
        Ranges::all(PORT_MAX)
    }
    fn nothing() -> Ranges {
        Ranges::default()
    }
    fn one(one: &PortRange) -> Ranges {
        Ranges(vec![(one.first.into(), one.last.into())])
    }
    fn union(self, other: Ranges) -> Ranges {
        Ranges::union(self, other)
    }
    fn minus(self, other: &Ranges) -> Ranges {
        Ranges::minus(self, other, PORT_MAX)
    }
    fn ranges(&self) -> usize {
        self.0.len()
    }
}

impl Set for Addresses {
    type One = AddressRange;

    fn everything() -> Addresses {
        Addresses { v4: Ranges::all(V4_MAX), v6: Ranges::all(u128::MAX) }
    }
    fn nothing() -> Addresses {
        Addresses::default()
    }
    fn one(one: &AddressRange) -> Addresses {
        match (one.first, one.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => Addresses {
                v4: Ranges(vec![(first.to_bits().into(), last.to_bits().into())]),
                v6: Ranges::default(),
            },
            (IpAddr::V6(first), IpAddr::V6(last)) => Addresses {
                v4: Ranges::default(),
                v6: Ranges(vec![(first.to_bits(), last.to_bits())]),
            },
            _ => Addresses::default(),
        }
    }
    fn union(self, other: Addresses) -> Addresses {
        Addresses { v4: self.v4.union(other.v4), v6: self.v6.union(other.v6) }
    }
    fn minus(self, other: &Addresses) -> Addresses {
        Addresses { v4: self.v4.minus(&other.v4, V4_MAX), v6: self.v6.minus(&other.v6, u128::MAX) }
    }
    fn ranges(&self) -> usize {
        self.v4.0.len() + self.v6.0.len()
    }
}

/// What a specification comes to.
fn resolve<S: Set>(spec: &Spec<S::One>, names: &Variables, depth: usize) -> Result<S, Reason> {
    let set = match spec {
        Spec::Any => S::everything(),
        Spec::One(one) => S::one(one),
        Spec::Not(spec) => S::everything().minus(&resolve(spec, names, depth)?),
        Spec::Variable(name) => {
            if depth >= REFERENCES_MAX {
                return Err(Reason::wrong(format!("${name} refers to others too deep")));
            }
            let spec = S::One::named(names, name)
                .ok_or_else(|| Reason::wrong(format!("${name} is not given; give it a value")))?;
            resolve(spec, names, depth + 1)?
        }
        Spec::List(specs) => list(specs, names, depth)?,
    };
    if set.ranges() > RANGES_MAX {
        return Err(Reason::TooLarge(format!("more than {RANGES_MAX} ranges in one end")));
    }
    Ok(set)
}

/// Members without the negated ones; where all are negated, everything without them.
fn list<S: Set>(specs: &[Spec<S::One>], names: &Variables, depth: usize) -> Result<S, Reason> {
    let (mut yes, mut no, mut any_yes) = (S::nothing(), S::nothing(), false);
    for spec in specs {
        match spec {
            Spec::Not(spec) => no = no.union(resolve(spec, names, depth)?),
            spec => {
                any_yes = true;
                yes = yes.union(resolve(spec, names, depth)?);
            }
        }
    }
    Ok(if any_yes { yes } else { S::everything() }.minus(&no))
}

/// One end of a rule; none: any.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::rules) struct Side {
    addresses: Option<Addresses>,
    ports: Option<Ranges>,
}

impl Side {
    fn contains(&self, address: IpAddr, port: u16) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.contains(port.into()))
            && self.addresses.as_ref().is_none_or(|addresses| addresses.contains(address))
    }
}

/// Both ends of a rule.
#[derive(Debug, Clone)]
pub(in crate::rules) struct Head {
    source: Arc<Side>,
    destination: Arc<Side>,
    is_both: bool,
}

impl Head {
    /// The IPv4 addresses of an end that has at most so many, and no others: of the source, or
    /// (true) of the destination, whichever has fewer. None where either end may be the sender.
    pub(in crate::rules) fn narrow(&self, max: u128) -> Option<(bool, Vec<(u32, u32)>)> {
        let few = |side: &Side| {
            let addresses = side.addresses.as_ref().filter(|it| it.v6.0.is_empty())?;
            let count: u128 = addresses.v4.0.iter().map(|(first, last)| last - first + 1).sum();
            let range = |&(first, last): &(u128, u128)| (first as u32, last as u32);
            (count <= max).then(|| (count, addresses.v4.0.iter().map(range).collect::<Vec<_>>()))
        };
        let ends = [few(&self.source), few(&self.destination)].into_iter().zip([false, true]);
        let ends = ends.filter_map(|(few, is_destination)| Some((few?, is_destination)));
        let least = ends.min_by_key(|((count, _), _)| *count).filter(|_| !self.is_both);
        least.map(|((_, ranges), is_destination)| (is_destination, ranges))
    }

    /// Whether packets from one to the other are the rule's.
    pub(in crate::rules) fn contains(&self, source: (IpAddr, u16), to: (IpAddr, u16)) -> bool {
        let matches = |from: (IpAddr, u16), to: (IpAddr, u16)| {
            self.source.contains(from.0, from.1) && self.destination.contains(to.0, to.1)
        };
        matches(source, to) || (self.is_both && matches(to, source))
    }
}

/// Ends that several rules have in common are kept once.
#[derive(Default)]
pub(in crate::rules) struct Pool(HashMap<End, Arc<Side>>);

impl Pool {
    /// The ends of a rule.
    ///
    /// # Errors
    /// A variable has no value, or an end is empty.
    pub(in crate::rules) fn head(
        &mut self,
        rule: &Rule,
        names: &Variables,
    ) -> Result<Head, Reason> {
        Ok(Head {
            source: self.side(&rule.source, names)?,
            destination: self.side(&rule.destination, names)?,
            is_both: rule.arrow == Arrow::Both,
        })
    }

    fn side(&mut self, end: &End, names: &Variables) -> Result<Arc<Side>, Reason> {
        if let Some(side) = self.0.get(end) {
            return Ok(Arc::clone(side));
        }
        let addresses: Addresses = resolve(&end.addresses, names, 0)?;
        let ports: Ranges = resolve(&end.ports, names, 0)?;
        if addresses.ranges() == 0 || ports.ranges() == 0 {
            return Err(Reason::wrong(format!("'{} {}' is nothing", end.addresses, end.ports)));
        }
        let side = Arc::new(Side {
            addresses: (addresses != Addresses::everything()).then_some(addresses),
            ports: (ports != Ranges::everything()).then_some(ports),
        });
        self.0.insert(end.clone(), Arc::clone(&side));
        Ok(side)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ports(text: &str) -> Result<Ranges, Reason> {
        resolve(&Spec::parse(text).unwrap(), &Variables::usual(), 0)
    }

    #[test]
    fn lists_leave_out_what_is_negated() {
        for (text, ranges) in [
            ("any", vec![(0, 65535)]),
            ("!80", vec![(0, 79), (81, 65535)]),
            ("[1:10,!5,3:20]", vec![(1, 4), (6, 20)]),
            ("[!80,!81]", vec![(0, 79), (82, 65535)]),
            ("![1,[2,3]]", vec![(0, 0), (4, 65535)]),
            ("[$HTTP_PORTS,81]", vec![(80, 81)]),
            ("[80,!80]", vec![]),
        ] {
            assert_eq!(ports(text).unwrap(), Ranges(ranges), "{text}");
        }
        assert!(ports("$NOTHING").is_err());
        let mut variables = Variables::default();
        variables.set_ports("A", "$B").unwrap();
        variables.set_ports("B", "$A").unwrap();
        assert!(resolve::<Ranges>(&Spec::Variable("A".into()), &variables, 0).is_err());
    }

    proptest! {
        #[test]
        fn sets_are_sets(a in proptest::collection::vec((0u128..40, 0u128..9), 0..6),
                         b in proptest::collection::vec((0u128..40, 0u128..9), 0..6)) {
            let ranges = |list: &[(u128, u128)]| {
                Ranges::new(list.iter().map(|(from, len)| (*from, from + len)).collect())
            };
            let within = |list: &[(u128, u128)], n: u128| {
                list.iter().any(|(from, len)| (*from..=from + len).contains(&n))
            };
            let (left, right) = (ranges(&a), ranges(&b));
            let (both, minus) = (left.clone().union(right.clone()), left.minus(&right, 60));
            for n in 0..=60 {
                prop_assert_eq!(both.contains(n), within(&a, n) || within(&b, n));
                prop_assert_eq!(minus.contains(n), within(&a, n) && !within(&b, n));
            }
        }
    }
}
