use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

/// Of a prefix: rates it began with and since when, and what was seen of it by epoch.
#[derive(Default)]
struct Plain {
    began: u32,
    rates: [f64; 2],
    seen: Vec<(u32, usize, u32)>,
}

impl Plain {
    /// The rates, from the beginning and an epoch at a time.
    fn rates(&self, epoch: u32) -> [f64; 2] {
        let mut rates = self.rates;
        for passed in self.began..epoch {
            for (direction, rate) in rates.iter_mut().enumerate() {
                let of = |(at, its, _): &&(u32, usize, u32)| *at == passed && *its == direction;
                let sum: u32 = self.seen.iter().filter(of).map(|(_, _, events)| events).sum();
                *rate += (f64::from(sum) * 12.5 - *rate) / 32.0;
            }
        }
        rates
    }
}

/// Prefixes that are counted, with those below which others are counted ("open").
struct Oracle {
    counted: BTreeMap<Vec<u8>, Plain>,
    open: Vec<Vec<u8>>,
    thresh: f64,
}

impl Oracle {
    fn exceeds(&self, prefix: &[u8], epoch: u32) -> bool {
        self.counted[prefix].rates(epoch).iter().any(|rate| *rate > self.thresh)
    }

    /// Closes what has none open below it and is too slow, until there is no more.
    fn fold(&mut self, epoch: u32) {
        loop {
            let below =
                |long: &[u8], short: &[u8]| long.len() > short.len() && long.starts_with(short);
            let slow = self.open.iter().position(|prefix| {
                !self.open.iter().any(|other| below(other, prefix)) && !self.exceeds(prefix, epoch)
            });
            let Some(slow) = slow else { return };
            let prefix = self.open.swap_remove(slow);
            self.counted.retain(|counted, _| !below(counted, &prefix));
        }
    }

    fn see(&mut self, address: [u8; 4], direction: usize, events: u32, epoch: u32) -> f64 {
        for len in 1..=4 {
            let prefix = address[..len].to_vec();
            let fresh = || Plain { began: epoch, ..Plain::default() };
            let plain = self.counted.entry(prefix.clone()).or_insert_with(fresh);
            plain.seen.push((epoch, direction, events));
            if self.open.contains(&prefix) {
                continue;
            }
            let rates = plain.rates(epoch);
            if len < 4 && self.exceeds(&prefix, epoch) {
                let below = Plain { began: epoch, rates, seen: Vec::new() };
                self.counted.insert(address[..=len].to_vec(), below);
                self.open.push(prefix);
            }
            return rates[0];
        }
        unreachable!("addresses have four bytes");
    }
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 0.02 + expected * 1e-4
}

proptest! {
    /// Rates, and what is looked into, are those of lists that are summed up anew each time.
    #[test]
    fn as_recomputed_from_lists(
        thresh in 1u32..300,
        steps in prop::collection::vec(
            (prop::array::uniform4(0u8..2), 0usize..2, 1u32..60, 0u32..6), 1..80),
    ) {
        let mut tree = Tree::new(64 * Tree::NODE_BYTES, thresh, 1.0).unwrap();
        let exact = f64::from(thresh) + 0.37;
        tree.thresh = exact as f32;
        let mut oracle = Oracle { counted: BTreeMap::new(), open: Vec::new(), thresh: exact };
        let mut epoch = 0;
        for (address, direction, events, passed) in steps {
            epoch += passed;
            tree.advance(i64::from(epoch) * EPOCH + 7);
            if passed > 0 {
                // As often as there are levels: then all is taken back that can be.
                (0..LEVELS).for_each(|_| tree.sweep());
                oracle.fold(epoch);
            }
            let found = f64::from(tree.see(address, direction, events));
            let expected = oracle.see(address, direction, events, epoch);
            prop_assert!(near(found, expected), "{found} {expected}");
            prop_assert_eq!(tree.bytes() / Tree::NODE_BYTES, 1 + oracle.open.len());
        }
        epoch += 1;
        tree.epoch = epoch;
        let mut found = BTreeMap::new();
        tree.visit(&mut |prefix, rates| found.insert(prefix.to_vec(), rates).is_none());
        for (prefix, plain) in &oracle.counted {
            let rates = found.remove(prefix).unwrap_or_default();
            for (found, expected) in rates.into_iter().zip(plain.rates(epoch)) {
                prop_assert!(near(f64::from(found), expected), "{prefix:?}: {found} {expected}");
            }
        }
        prop_assert!(found.is_empty(), "{found:?}");
    }

    /// However many addresses come, the memory is that of the beginning; once they are gone, all
    /// but one node is free, and then there is room again.
    #[test]
    fn memory_is_bounded(seed: u64) {
        let mut random = thruway_elements_support::random::Random::from_seed(seed);
        let mut tree = Tree::new(5 * Tree::NODE_BYTES, 0, 1.0).unwrap();
        let reserved = (tree.counters.capacity(), tree.links.capacity(), tree.free.capacity());
        for step in 0..500 {
            tree.advance(step * EPOCH / 4);
            tree.see((random.next_u64() as u32).to_be_bytes(), (step % 2) as usize, 9);
            prop_assert!(tree.bytes() <= tree.bytes_max());
        }
        prop_assert_eq!(tree.bytes(), tree.bytes_max());
        (0..4).for_each(|step| tree.advance((10_000 + step) * EPOCH));
        prop_assert_eq!(tree.bytes(), Tree::NODE_BYTES);
        (10_010..10_020).for_each(|step| {
            tree.advance(step * EPOCH);
            tree.see([1, 2, 3, 4], 0, 9);
        });
        prop_assert_eq!(tree.bytes(), 4 * Tree::NODE_BYTES);
        let now = (tree.counters.capacity(), tree.links.capacity(), tree.free.capacity());
        prop_assert_eq!(now, reserved);
    }
}

#[test]
fn dividing_and_taking_back_allocates_nothing() {
    let mut tree = Tree::new(1 << 20, 0, 1.0).unwrap();
    let (mut most, mut taken_back) = (0, 0);
    let work = || {
        for step in 0..2_000 {
            // Times without packets in between.
            tree.advance((step + step / 500 * 10_000) * EPOCH);
            let address = (step as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
            tree.see(address.map(|byte| byte % 4), 0, 9);
            most = most.max(tree.bytes());
            taken_back = taken_back.max(tree.free.len());
        }
    };
    assert_eq!(allocation_counter::measure(work).count_total, 0);
    assert!(most > 20 * Tree::NODE_BYTES && taken_back > 10, "{most} {taken_back}");
}

#[test]
fn extremes() {
    let mut tree = Tree::new(0, u32::MAX, 0.0).unwrap();
    for now in [i64::MIN, i64::MAX, 0, -1] {
        tree.advance(now);
        tree.see([255; 4], 0, u32::MAX);
        assert_eq!(tree.see([255; 4], 1, u32::MAX), 0.0);
    }
    assert!(tree.hold([255; 4], 0, u32::MAX));
    assert!(!tree.hold([255; 4], 3, 1));
    tree.reset(i64::MAX);
    tree.advance(i64::MIN);
    assert_eq!(tree.elapsed(i64::MIN), 0);
}

#[test]
fn what_is_held_is_not_looked_into() {
    let mut tree = Tree::new(1 << 20, 10, 0.5).unwrap();
    let flood = |tree: &mut Tree, epochs: std::ops::Range<i64>| {
        epochs.for_each(|epoch| {
            tree.advance(epoch * EPOCH);
            tree.see([1, 2, 3, 4], 0, 100);
        });
        tree.bytes() / Tree::NODE_BYTES
    };
    assert_eq!(flood(&mut tree, 0..1), 1);
    // 100 in an epoch of 80 ms, half of what there was.
    assert!(tree.hold([1, 9, 9, 9], 0, 2));
    assert_eq!(flood(&mut tree, 1..25), 1);
    assert_eq!(flood(&mut tree, 25..29), 4);
    let rate = |tree: &mut Tree| f64::from(tree.see([1, 2, 3, 4], 0, 0));
    flood(&mut tree, 29..600);
    assert!(near(rate(&mut tree), 2_500.0), "{}", rate(&mut tree));
}
