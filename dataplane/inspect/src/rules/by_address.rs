//! Rules that are about few addresses, by those addresses: lists of known senders have thousands.

use std::net::IpAddr;

use crate::rules::compiled::Compiled;

/// A rule with more IPv4 addresses than this at both ends is not kept here.
const ADDRESSES_MAX: u128 = 1 << 28;

/// Rules by one of their addresses, sender or receiver.
#[derive(Debug, Default)]
struct Ranges {
    /// First address of each range, ascending.
    firsts: Vec<u32>,
    /// Rules of each range.
    rules: Vec<Vec<u32>>,
}

impl Ranges {
    fn new(lists: &[(Vec<(u32, u32)>, u32)]) -> Ranges {
        let ends = |(first, last): &(u32, u32)| [Some(*first), last.checked_add(1)];
        let all = lists.iter().flat_map(|(ranges, _)| ranges);
        let mut firsts: Vec<u32> = all.flat_map(ends).flatten().collect();
        firsts.sort_unstable();
        firsts.dedup();
        let mut rules = vec![Vec::new(); firsts.len()];
        for (ranges, rule) in lists {
            for (first, last) in ranges {
                let from = firsts.partition_point(|it| it < first);
                let to = firsts.partition_point(|it| it <= last);
                rules[from..to].iter_mut().for_each(|rules| rules.push(*rule));
            }
        }
        Ranges { firsts, rules }
    }

    fn of(&self, address: IpAddr) -> &[u32] {
        let IpAddr::V4(address) = address else { return &[] };
        let after = self.firsts.partition_point(|first| *first <= address.to_bits());
        after.checked_sub(1).map_or(&[], |at| &self.rules[at])
    }
}

/// Rules with conditions on endpoints only, by address.
#[derive(Debug, Default)]
pub(super) struct ByAddress {
    sources: Ranges,
    destinations: Ranges,
}

impl ByAddress {
    /// Of those of the rules that are about few addresses; the others are returned.
    pub(super) fn new(rules: &[Compiled], without: Vec<u32>) -> (ByAddress, Vec<u32>) {
        let (mut lists, mut others) = ([Vec::new(), Vec::new()], Vec::new());
        for number in without {
            let rule = &rules[number as usize];
            let narrow = rule.head.narrow(ADDRESSES_MAX).filter(|_| rule.is_of_ends());
            match narrow {
                Some((is_destination, ranges)) => {
                    lists[usize::from(is_destination)].push((ranges, number));
                }
                _ => others.push(number),
            }
        }
        let [sources, destinations] = lists.map(|lists| Ranges::new(&lists));
        (ByAddress { sources, destinations }, others)
    }

    /// Those that may be about a packet from one address to the other.
    pub(super) fn of(&self, source: IpAddr, destination: IpAddr) -> impl Iterator<Item = u32> + '_ {
        self.sources.of(source).iter().chain(self.destinations.of(destination)).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_those_of_a_scan(
            lists in proptest::collection::vec(proptest::collection::vec((0u32..60, 0u32..9), 0..4), 0..6),
            top: bool,
        ) {
            let base = if top { u32::MAX - 70 } else { 0 };
            let lists: Vec<(Vec<(u32, u32)>, u32)> = lists
                .into_iter()
                .zip(0..)
                .map(|(list, rule)| {
                    let mut ranges: Vec<(u32, u32)> = Vec::new();
                    for (first, len) in list {
                        // Ranges of one list do not touch each other.
                        let range = (base + first, base + first + len);
                        if ranges.iter().all(|it| it.1 + 1 < range.0 || range.1 + 1 < it.0) {
                            ranges.push(range);
                        }
                    }
                    (ranges, rule)
                })
                .collect();
            let ranges = Ranges::new(&lists);
            for address in base..=base.saturating_add(70) {
                let is_in = |list: &Vec<(u32, u32)>| list.iter().any(|it| it.0 <= address && address <= it.1);
                let wanted: Vec<u32> = lists.iter().filter(|it| is_in(&it.0)).map(|it| it.1).collect();
                let found = ranges.of(IpAddr::V4(std::net::Ipv4Addr::from_bits(address)));
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
