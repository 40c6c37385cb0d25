//! Both forwarding tables against a linear scan of a list of prefixes.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use thruway_lpm::synthetic;
use thruway_lpm::{Fib4, Hop, Key, LpmError, NO_ROUTE, PoptrieFib, Prefix, Reader, Route};
use thruway_random::Random;

/// The oracle: all prefixes, each looked at for every lookup.
#[derive(Default)]
struct Scan<K: Key>(BTreeMap<Prefix<K>, Route<K>>);

impl<K: Key> Scan<K> {
    fn lookup(&self, addr: K) -> Option<Route<K>> {
        let matching = self.0.iter().filter(|(prefix, _)| prefix.contains(addr));
        matching.max_by_key(|(prefix, _)| prefix.len()).map(|(_, &route)| route)
    }
}

/// The common interface of the two tables, for the tests.
trait Table<K: Key> {
    fn insert(&self, prefix: Prefix<K>, route: Route<K>) -> Result<(), LpmError>;
    fn insert_all(&self, all: &[(Prefix<K>, Route<K>)]) -> Result<usize, (usize, LpmError)>;
    fn replace(&self, p: Prefix<K>, route: Route<K>) -> Result<Option<Route<K>>, LpmError>;
    fn remove(&self, prefix: Prefix<K>) -> Result<Route<K>, LpmError>;
    fn routes(&self) -> Vec<(Prefix<K>, Route<K>)>;
    /// By the batch and one by one, which must agree.
    fn lookup_all(&self, addrs: &[K]) -> Vec<Option<Route<K>>>;
}

impl Table<u32> for Fib4 {
    fn insert(&self, prefix: Prefix<u32>, route: Route<u32>) -> Result<(), LpmError> {
        self.insert(prefix, route)
    }
    fn insert_all(&self, all: &[(Prefix<u32>, Route<u32>)]) -> Result<usize, (usize, LpmError)> {
        self.insert_all(all)
    }
    fn replace(&self, p: Prefix<u32>, r: Route<u32>) -> Result<Option<Route<u32>>, LpmError> {
        self.replace(p, r)
    }
    fn remove(&self, prefix: Prefix<u32>) -> Result<Route<u32>, LpmError> {
        self.remove(prefix)
    }
    fn routes(&self) -> Vec<(Prefix<u32>, Route<u32>)> {
        self.routes()
    }
    fn lookup_all(&self, addrs: &[u32]) -> Vec<Option<Route<u32>>> {
        let mut indices = vec![u32::MAX; addrs.len()];
        self.lookup_batch(addrs, &mut indices);
        let mut hops = vec![Hop::NONE; addrs.len()];
        self.hop_batch(addrs, &mut hops);
        let route = |hop: &Hop| Some(hop.route()).filter(|_| *hop != Hop::NONE);
        let routes: Vec<_> = hops.iter().map(route).collect();
        for ((&addr, &index), &route) in addrs.iter().zip(&indices).zip(&routes) {
            assert_eq!(self.route(index), route);
            assert_eq!(self.lookup(addr), Some(index).filter(|&index| index != NO_ROUTE));
            assert_eq!(self.lookup_route(addr), route);
        }
        routes
    }
}

struct Tried<K: Key>(Arc<PoptrieFib<K>>, std::cell::RefCell<Reader<K>>);

impl<K: Key> Tried<K> {
    fn new() -> Self {
        let fib = Arc::new(PoptrieFib::new());
        let reader = fib.reader();
        Tried(fib, reader.into())
    }
}

impl<K: Key> Table<K> for Tried<K> {
    fn insert(&self, prefix: Prefix<K>, route: Route<K>) -> Result<(), LpmError> {
        self.0.insert(prefix, route)
    }
    fn insert_all(&self, all: &[(Prefix<K>, Route<K>)]) -> Result<usize, (usize, LpmError)> {
        self.0.insert_all(all)
    }
    fn replace(&self, p: Prefix<K>, r: Route<K>) -> Result<Option<Route<K>>, LpmError> {
        self.0.replace(p, r)
    }
    fn remove(&self, prefix: Prefix<K>) -> Result<Route<K>, LpmError> {
        self.0.remove(prefix)
    }
    fn routes(&self) -> Vec<(Prefix<K>, Route<K>)> {
        self.0.routes()
    }
    fn lookup_all(&self, addrs: &[K]) -> Vec<Option<Route<K>>> {
        self.0.publish();
        let mut reader = self.1.borrow_mut();
        reader.refresh();
        let mut indices = vec![u32::MAX; addrs.len()];
        reader.lookup_batch(addrs, &mut indices);
        let lookup = |(&addr, &index): (&K, &u32)| {
            assert_eq!(reader.lookup(addr), reader.route(index));
            reader.route(index)
        };
        addrs.iter().zip(&indices).map(lookup).collect()
    }
}

#[derive(Debug, Clone)]
enum Change<K> {
    Insert(Prefix<K>, Route<K>),
    /// Many at once: both few enough and enough for the table to rebuild in bulk.
    InsertAll(Vec<(Prefix<K>, Route<K>)>),
    Replace(Prefix<K>, Route<K>),
    Remove(Prefix<K>),
    /// Removes the n-th of those there are.
    RemoveNth(prop::sample::Index),
    Look,
}

/// Prefixes that nest and touch: few different bits, every length.
fn prefix<K: Key>() -> impl Strategy<Value = Prefix<K>> {
    let near = any::<[u8; 4]>();
    // Very short prefixes cover millions of entries each: a few of them are enough.
    let len = prop_oneof![1 => 0..=6u8, 12 => 7..=K::BITS];
    (near, len).prop_map(|(near, len)| {
        // Spread eight random bits over the places where tables change their structure.
        let mut addr = K::zero();
        for at in 0..K::BITS {
            let bit = near[usize::from(at) / 8 % 4] >> (at % 8) & 1;
            let keep = matches!(at, 0 | 7 | 15 | 16 | 22 | 23 | 24 | 31 | 47 | 127);
            addr = addr << 1 | if keep && bit == 1 { K::one() } else { K::zero() };
        }
        Prefix::new(addr, len).unwrap()
    })
}

fn change<K: Key>() -> impl Strategy<Value = Change<K>> {
    let route =
        || (0u8..6, 0u32..3).prop_map(|(hop, port)| Route { gateway: K::from(hop).unwrap(), port });
    prop_oneof![
        6 => (prefix(), route()).prop_map(|(p, r)| Change::Insert(p, r)),
        1 => prop::collection::vec((prefix(), route()), 0..100).prop_map(Change::InsertAll),
        2 => (prefix(), route()).prop_map(|(p, r)| Change::Replace(p, r)),
        1 => prefix().prop_map(Change::Remove),
        4 => any::<prop::sample::Index>().prop_map(Change::RemoveNth),
        2 => Just(Change::Look),
    ]
}

/// The addresses where an answer may change: the ends of every prefix, and right beside them.
fn edges<K: Key>(scan: &Scan<K>, probes: &[Prefix<K>]) -> Vec<K> {
    let ends = |prefix: &Prefix<K>| {
        let (first, last) = (prefix.first(), prefix.last());
        let before = first.checked_sub(&K::one()).unwrap_or(first);
        [before, first, last, last.checked_add(&K::one()).unwrap_or(last)]
    };
    scan.0.keys().chain(probes).flat_map(ends).collect()
}

fn compare<K: Key>(table: &impl Table<K>, scan: &Scan<K>, probes: &[Prefix<K>]) {
    let addrs = edges(scan, probes);
    for (addr, found) in addrs.iter().zip(table.lookup_all(&addrs)) {
        assert_eq!(found, scan.lookup(*addr), "{}", Prefix::host(*addr));
    }
    let routes: Vec<_> = scan.0.iter().map(|(&prefix, &route)| (prefix, route)).collect();
    assert_eq!(table.routes(), routes);
}

fn apply<K: Key>(table: &impl Table<K>, scan: &mut Scan<K>, change: &Change<K>) {
    match change {
        Change::Insert(prefix, route) => {
            let expected = if scan.0.contains_key(prefix) { Err(LpmError::Exists) } else { Ok(()) };
            assert_eq!(table.insert(*prefix, *route), expected);
            scan.0.entry(*prefix).or_insert(*route);
        }
        Change::InsertAll(all) => {
            let before = scan.0.len();
            for (prefix, route) in all {
                scan.0.entry(*prefix).or_insert(*route);
            }
            let doubles = all.len() - (scan.0.len() - before);
            assert_eq!(table.insert_all(all), Ok(doubles));
        }
        Change::Replace(prefix, route) => {
            assert_eq!(table.replace(*prefix, *route), Ok(scan.0.insert(*prefix, *route)));
        }
        Change::Remove(prefix) => remove(table, scan, *prefix),
        Change::RemoveNth(nth) => {
            let all: Vec<_> = scan.0.keys().copied().collect();
            if !all.is_empty() {
                remove(table, scan, *nth.get(&all));
            }
        }
        Change::Look => compare(table, scan, &[]),
    }
}

fn remove<K: Key>(table: &impl Table<K>, scan: &mut Scan<K>, prefix: Prefix<K>) {
    let expected = scan.0.remove(&prefix).ok_or(LpmError::NotFound);
    assert_eq!(table.remove(prefix), expected);
}

fn run<K: Key>(table: &impl Table<K>, changes: &[Change<K>]) {
    let mut scan = Scan(BTreeMap::new());
    let mut touched = Vec::new();
    for change in changes {
        if let Change::Insert(prefix, _) | Change::Replace(prefix, _) = change {
            touched.push(*prefix);
        }
        if let Change::InsertAll(all) = change {
            touched.extend(all.iter().map(|(prefix, _)| *prefix));
        }
        apply(table, &mut scan, change);
    }
    compare(table, &scan, &touched);
    for prefix in scan.0.keys().copied().collect::<Vec<_>>() {
        remove(table, &mut scan, prefix);
    }
    compare(table, &scan, &touched);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 24 } else { 64 }))]

    #[test]
    fn dir24_8_is_the_scan(changes in prop::collection::vec(change::<u32>(), 1..60)) {
        run(&Fib4::new().unwrap(), &changes);
    }

    #[test]
    fn poptrie_is_the_scan_for_ipv6(changes in prop::collection::vec(change::<u128>(), 1..60)) {
        run(&Tried::<u128>::new(), &changes);
    }

    #[test]
    fn poptrie_is_the_scan_for_ipv4(changes in prop::collection::vec(change::<u32>(), 1..60)) {
        run(&Tried::<u32>::new(), &changes);
    }
}

/// Synthetic tables: the poptrie, the base's own lookup and DIR-24-8 give the same answers.
#[test]
fn the_tables_agree_on_a_million_prefixes() {
    let count = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let table = synthetic::routes::<u32>(count, 7, 64, 4);
    assert_eq!(table.len(), count);
    let (fib, tried) = (Fib4::new().unwrap(), Tried::<u32>::new());
    let mut rib = thruway_lpm::Rib::new();
    for &(prefix, route) in &table {
        fib.insert(prefix, route).unwrap();
        tried.insert(prefix, route).unwrap();
        rib.insert(prefix, route).unwrap();
    }
    agree(&fib, &tried, &rib, &table);
    // An eighth of it goes, in another order than it came.
    for &(prefix, route) in table.iter().rev().step_by(8) {
        assert_eq!(fib.remove(prefix), Ok(route));
        assert_eq!(tried.remove(prefix), Ok(route));
        rib.remove(prefix);
    }
    agree(&fib, &tried, &rib, &table);
    fib.clear();
    assert_eq!(fib.usage(), (0, 0));
    let addrs = synthetic::traffic(&table, 10_000, 3);
    assert!(fib.lookup_all(&addrs).iter().all(Option::is_none));
}

/// However deep prefixes nest and in whichever order they come: as many stores as there are
/// entries, so it takes about as long as for as many that do not nest. (One by one they took 20
/// times as long.)
#[test]
fn prefixes_that_nest_are_entered_at_once() {
    const COUNT: usize = 160_000;
    let port = |at: usize| Route { gateway: 0, port: (at % 5) as u32 };
    let of_len = |len: u8| (0..1u32 << len).map(move |at| (at << (32 - len), len, at));
    let written =
        |(addr, len, at): (u32, u8, u32)| (Prefix::new(addr, len).unwrap(), port(at as usize));
    let flat: Vec<_> = of_len(18).map(written).take(COUNT).collect();
    let mut nested: Vec<_> = (1..=17).flat_map(of_len).map(written).take(COUNT).collect();
    let enter = |all: &[_]| {
        let (fib, begin) = (Fib4::new().unwrap(), std::time::Instant::now());
        assert_eq!(fib.insert_all(all), Ok(0));
        (fib, begin.elapsed())
    };
    let (_, usual) = enter(&flat);
    for _ in 0..2 {
        nested.reverse();
        let (fib, took) = enter(&nested);
        assert!(took < usual * 6, "{took:?}, others {usual:?}");
        assert_eq!(fib.len(), COUNT);
        let mut random = Random::from_seed(9);
        for _ in 0..10_000 {
            let addr = random.next_u64() as u32;
            let at = |len: u32| (addr >> (32 - len)) as usize;
            let len = if at(17) < COUNT - ((1 << 17) - 2) { 17 } else { 16 };
            assert_eq!(fib.lookup_route(addr), Some(port(at(len))), "{addr:08x}");
        }
    }
}

/// If the table fills up, the routes before stay and the rest is not added.
#[test]
fn a_table_that_is_full_says_at_which_route() {
    let host = |at: u32| (Prefix::host(at << 8), Route { gateway: 0, port: 1 });
    let all: Vec<_> = (0..0x8010).map(host).collect();
    let fib = Fib4::new().unwrap();
    assert_eq!(fib.insert_all(&all), Err((0x7fff, LpmError::GroupsExhausted)));
    assert_eq!((fib.len(), fib.usage()), (0x7fff, (1, 0x7fff)));
    assert_eq!(fib.lookup_route(0x7ffe << 8), Some(all[0].1));
    assert_eq!(fib.lookup_route(0x7fff << 8), None);
}

fn agree(
    fib: &Fib4,
    tried: &Tried<u32>,
    rib: &thruway_lpm::Rib<u32, Route<u32>>,
    table: &[(Prefix<u32>, Route<u32>)],
) {
    let mut addrs = synthetic::traffic(table, 50_000, 1);
    addrs.extend(synthetic::uniform::<u32>(10_000, 2));
    let (ours, theirs) = (fib.lookup_all(&addrs), tried.lookup_all(&addrs));
    for ((addr, ours), theirs) in addrs.iter().zip(ours).zip(theirs) {
        let expected = rib.lookup(*addr).map(|(_, &route)| route);
        assert_eq!((ours, theirs), (expected, expected), "{addr:08x}");
    }
}

#[test]
fn a_synthetic_ipv6_table_against_its_base() {
    let count = if cfg!(debug_assertions) { 5_000 } else { 100_000 };
    let table = synthetic::routes::<u128>(count, 11, 32, 4);
    let (tried, mut rib) = (Tried::<u128>::new(), thruway_lpm::Rib::new());
    for &(prefix, route) in &table {
        tried.insert(prefix, route).unwrap();
        rib.insert(prefix, route).unwrap();
    }
    let mut addrs = synthetic::traffic(&table, 50_000, 1);
    let mut random = Random::from_seed(5);
    addrs.extend((0..10_000).map(|_| <u128 as synthetic::Family>::public(&mut random)));
    for (addr, found) in addrs.iter().zip(tried.lookup_all(&addrs)) {
        assert_eq!(found, rib.lookup(*addr).map(|(_, &route)| route));
    }
}
