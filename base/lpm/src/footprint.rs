//! Memory of a table that lookups reach: the cache footprint.

use crate::prefix::{Key, Prefix};
use crate::rib::Rib;

/// Memory that lookups reach for addresses spread evenly over the routes, except a default route,
/// which may cover addresses that are never looked up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Footprint {
    /// Bytes in all.
    pub bytes: usize,
    /// Lines of 64 bytes that one lookup touches, on average.
    pub lines: f64,
}

/// How many blocks of addresses that agree in the first `bits` (below 32) bits have routes.
pub(crate) fn blocks<K: Key, V>(rib: &Rib<K, V>, bits: u8) -> usize {
    let mut outer: Option<Prefix<K>> = None;
    let mut blocks = 0;
    for (prefix, _) in rib.iter().filter(|(prefix, _)| prefix.len() > 0) {
        if outer.is_none_or(|outer| !outer.contains(prefix.first())) {
            blocks += 1_usize << bits.saturating_sub(prefix.len());
            outer = Some(Prefix::truncate(prefix.first(), prefix.len().min(bits)));
        }
    }
    blocks
}

/// The mean over all prefixes, but for a default route, of something that depends on their
/// lengths; 0 where there is none.
pub(crate) fn mean<K: Key, V>(rib: &Rib<K, V>, of: impl Fn(u8) -> f64) -> f64 {
    let lengths = rib.iter().map(|(prefix, _)| prefix.len()).filter(|len| *len > 0);
    let (count, sum) = lengths.fold((0_u32, 0.0), |(n, sum), len| (n + 1, sum + of(len)));
    sum / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fib4, Fib6, Route};
    use std::collections::HashSet;
    use std::sync::Arc;

    const ROUTE: Route<u32> = Route { gateway: 0, port: 1 };

    #[test]
    fn a_table_reaches_what_its_routes_fill() {
        let fib = Fib4::new().unwrap();
        assert_eq!(fib.footprint(), Footprint { bytes: 0, lines: 1.0 });
        fib.insert(Prefix::new(0, 0).unwrap(), ROUTE).unwrap();
        assert_eq!(fib.footprint(), Footprint { bytes: 0, lines: 1.0 });
        // A /16 is 256 entries of two bytes, one inside of it is no more; a /32 elsewhere is an
        // entry and a group of 256.
        for (addr, len) in [(0x0a01_0000, 16), (0x0a01_0100, 24), (0x0a02_0003, 32)] {
            fib.insert(Prefix::new(addr, len).unwrap(), ROUTE).unwrap();
        }
        let footprint = fib.footprint();
        assert_eq!(footprint.bytes, 257 * 2 + 512);
        assert!((footprint.lines - 4.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn longer_prefixes_take_more_steps() {
        let route = Route { gateway: 0, port: 1 };
        let footprint = |routes: &[(u128, u8)]| {
            let fib = Arc::new(Fib6::default());
            for (addr, len) in routes {
                fib.insert(Prefix::new(*addr << 64, *len).unwrap(), route).unwrap();
            }
            fib.publish();
            fib.footprint()
        };
        let site = 0x2001_0db8_0001_0000;
        // A slot, one node with all branches to one leaf, and that leaf.
        assert_eq!(footprint(&[(site, 16)]), Footprint { bytes: 8 + 24 + 2, lines: 3.0 });
        // (48 - 16) / 6 are six nodes.
        let long = footprint(&[(site, 48)]);
        assert_eq!(long.lines, 8.0);
        assert!(long.bytes > 8 + 6 * 24, "{long:?}");
        assert!(footprint(&[(site, 48), (site << 1, 48)]).bytes > long.bytes);
    }

    proptest::proptest! {
        /// Against a set of all blocks.
        #[test]
        fn blocks_are_those_of_a_set(
            prefixes in proptest::collection::vec((0..64_u32, 1..33_u8), 0..12)
        ) {
            let mut rib = Rib::<u32, ()>::new();
            let mut set = HashSet::new();
            for (high, len) in prefixes {
                let prefix = Prefix::new(high << 26 | 0x1234, len).unwrap();
                rib.replace(prefix, ());
                set.extend(prefix.first() >> 22..=prefix.last() >> 22);
            }
            proptest::prop_assert_eq!(blocks(&rib, 10), set.len());
        }
    }
}
