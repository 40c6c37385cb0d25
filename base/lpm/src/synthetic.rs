//! Route tables like the Internet's, from a seed: the same seed gives the same table everywhere.
//!
//! Lengths are drawn as they are spread in tables of the default-free zone (public BGP table
//! reports of 2023 and 2024: about six in ten IPv4 prefixes are /24s, nearly all the others /16 to
//! /23; in IPv6 nearly half are /48s), and half of the prefixes lie inside one drawn before, so
//! that tables nest. One IPv4 prefix in two hundred is longer than /24, as in a network's own
//! table.

use thruway_random::Random;

use crate::hops::Route;
use crate::prefix::{Key, Prefix};
use std::collections::HashSet;

/// A length and how many prefixes in 100,000 have it.
type Weight = (u8, u32);

const LENGTHS4: &[Weight] = &[
    (8, 2),
    (10, 4),
    (11, 10),
    (12, 30),
    (13, 60),
    (14, 120),
    (15, 210),
    (16, 1_350),
    (17, 840),
    (18, 1_420),
    (19, 2_500),
    (20, 4_500),
    (21, 5_200),
    (22, 11_400),
    (23, 10_100),
    (24, 61_754),
    (25, 60),
    (26, 70),
    (27, 70),
    (28, 60),
    (29, 80),
    (30, 60),
    (32, 100),
];

const LENGTHS6: &[Weight] = &[
    (20, 10),
    (24, 40),
    (28, 150),
    (29, 3_000),
    (30, 400),
    (32, 12_500),
    (33, 1_500),
    (34, 1_600),
    (36, 3_200),
    (38, 1_000),
    (40, 11_500),
    (42, 2_200),
    (44, 10_500),
    (46, 3_900),
    (47, 2_400),
    (48, 45_800),
    (56, 100),
    (64, 150),
    (128, 50),
];

/// Different (gateway, port) pairs are at most this many unless asked otherwise.
pub const DEFAULT_HOPS: u32 = 64;

/// 128 random bits.
fn wide(random: &mut Random) -> u128 {
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}

/// An address family's part in a synthetic table.
pub trait Family: Key {
    #[doc(hidden)]
    const LENGTHS: &'static [Weight];

    /// Random bits for a whole address.
    fn any(random: &mut Random) -> Self;

    /// An address of the space that is given out: no private, loopback or multicast ones.
    fn public(random: &mut Random) -> Self;
}

impl Family for u32 {
    const LENGTHS: &'static [Weight] = LENGTHS4;

    fn any(random: &mut Random) -> Self {
        random.next_u64() as u32
    }

    fn public(random: &mut Random) -> Self {
        loop {
            let addr = Self::any(random);
            // 1.0.0.0 to 223.255.255.255 without 10/8 and 127/8.
            if matches!(addr >> 24, 1..=223) && !matches!(addr >> 24, 10 | 127) {
                return addr;
            }
        }
    }
}

impl Family for u128 {
    const LENGTHS: &'static [Weight] = LENGTHS6;

    fn any(random: &mut Random) -> Self {
        wide(random)
    }

    /// Of the regional registries' large blocks 2400::/12 to 2c00::/12, and 2001::/16.
    fn public(random: &mut Random) -> Self {
        const BLOCKS: [(u128, u8); 6] =
            [(0x2001, 16), (0x2400, 12), (0x2600, 12), (0x2800, 12), (0x2a00, 12), (0x2c00, 12)];
        let (block, len) = BLOCKS[random.below(BLOCKS.len() as u64) as usize];
        block << 112 | wide(random) >> len
    }
}

/// `count` different prefixes in the order drawn: shuffled, covers and covered mixed.
///
/// Fewer only if that many are not to be found: IPv4 has room for some 12 million.
pub fn prefixes<K: Family>(count: usize, seed: u64) -> Vec<Prefix<K>> {
    let mut random = Random::from_seed(seed);
    let total: u64 = K::LENGTHS.iter().map(|&(_, weight)| u64::from(weight)).sum();
    let mut seen = HashSet::with_capacity(count);
    let mut drawn: Vec<Prefix<K>> = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(16) {
        if drawn.len() == count {
            break;
        }
        let len = draw_length(K::LENGTHS, random.below(total));
        let inside = drawn.get(random.below(2 * drawn.len() as u64) as usize);
        let addr = match inside.filter(|cover| cover.len() < len) {
            Some(cover) => address_in(*cover, &mut random),
            None => K::public(&mut random),
        };
        let prefix = Prefix::truncate(addr, len);
        if seen.insert(prefix) {
            drawn.push(prefix);
        }
    }
    drawn
}

fn draw_length(lengths: &[Weight], mut at: u64) -> u8 {
    for &(len, weight) in lengths {
        match at.checked_sub(u64::from(weight)) {
            Some(rest) => at = rest,
            None => return len,
        }
    }
    24
}

/// A random address of a prefix.
pub fn address_in<K: Family>(prefix: Prefix<K>, random: &mut Random) -> K {
    prefix.first() | (K::any(random) & (prefix.last() ^ prefix.first()))
}

/// [`prefixes`] with routes: `hops` different gateways, spread over `ports` output ports.
pub fn routes<K: Family>(
    count: usize,
    seed: u64,
    hops: u32,
    ports: u32,
) -> Vec<(Prefix<K>, Route<K>)> {
    let mut random = Random::from_seed(seed ^ 0x686f_7073);
    let route = |prefix| {
        let hop = random.below(u64::from(hops.max(1)));
        // Gateways 1, 2, ... in 192.168.0.0/16 or fe80::/16.
        let net = if K::BITS == 32 { 0xc0a8 } else { 0xfe80 };
        let net = K::from(net).unwrap_or_else(K::zero) << usize::from(K::BITS - 16);
        let gateway = net | K::from(hop + 1).unwrap_or_else(K::one);
        (prefix, Route { gateway, port: (hop % u64::from(ports.max(1))) as u32 })
    };
    prefixes(count, seed).into_iter().map(route).collect()
}

/// `count` addresses, each in a prefix drawn from `table` alike: traffic that has routes.
pub fn traffic<K: Family, V>(table: &[(Prefix<K>, V)], count: usize, seed: u64) -> Vec<K> {
    let mut random = Random::from_seed(seed);
    let mut draw = || {
        let at = random.below(table.len() as u64) as usize;
        match table.get(at) {
            Some(&(prefix, _)) => address_in(prefix, &mut random),
            None => K::public(&mut random),
        }
    };
    (0..count).map(|_| draw()).collect()
}

/// `count` addresses, uniform over all there are: no locality at all.
pub fn uniform<K: Family>(count: usize, seed: u64) -> Vec<K> {
    let mut random = Random::from_seed(seed);
    (0..count).map(|_| K::any(&mut random)).collect()
}
