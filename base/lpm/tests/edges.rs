//! The ends of the range, the limits, and readers at work while the table changes.

use std::sync::Arc;
use std::thread;
use thruway_lpm::{
    Fib4, Fib6, Hop, LpmError, MAX_HOPS, Prefix4, Prefix6, Reader, Rib6, Route4, Route6, synthetic,
};
use thruway_random::Random;
use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A port that no prefix of these tests has by its address.
const DEFAULT: u32 = 1 << 24;

fn via(port: u32) -> Route4 {
    Route4 { gateway: 0, port }
}

fn net(addr: u32, len: u8) -> Prefix4 {
    Prefix4::new(addr, len).unwrap()
}

#[test]
fn a_prefix_longer_than_its_address_is_refused() {
    assert!(Prefix4::new(0, 33).is_err());
    assert!(Prefix6::new(0, 129).is_err());
    assert_eq!(net(0x0a01_0203, 8), net(0x0a00_0000, 8));
    assert_eq!(net(0xffff_ffff, 32).to_string(), "255.255.255.255/32");
    assert_eq!(Prefix6::default_route().to_string(), "::/0");
}

#[test]
fn default_route_and_single_addresses() {
    let fib = Fib4::new().unwrap();
    fib.insert(Prefix4::default_route(), via(1)).unwrap();
    fib.insert(Prefix4::host(0), via(2)).unwrap();
    fib.insert(Prefix4::host(u32::MAX), via(3)).unwrap();
    let port = |addr| fib.lookup_route(addr).map(|route| route.port);
    assert_eq!(
        [port(0), port(1), port(u32::MAX - 1), port(u32::MAX)].map(Option::unwrap),
        [2, 1, 1, 3]
    );
    fib.remove(Prefix4::default_route()).unwrap();
    assert_eq!([port(0), port(1), port(u32::MAX)], [Some(2), None, Some(3)]);
    assert_eq!(fib.usage(), (2, 2));
    fib.remove(Prefix4::host(0)).unwrap();
    assert_eq!(fib.usage(), (1, 1));
    assert_eq!(fib.dump(), "255.255.255.255/32\t-\t3\n");
}

#[test]
fn ipv6_default_route_and_single_addresses() {
    let fib = Arc::new(Fib6::new());
    let mut reader = fib.reader();
    fib.insert(Prefix6::default_route(), Route6 { gateway: 1, port: 1 }).unwrap();
    fib.insert(Prefix6::host(u128::MAX), Route6 { gateway: 2, port: 2 }).unwrap();
    reader.refresh();
    assert_eq!(reader.lookup(5), None, "not published yet");
    fib.publish();
    assert_eq!(reader.lookup(5), None, "not refreshed yet");
    reader.refresh();
    assert_eq!(reader.lookup(5).unwrap().port, 1);
    assert_eq!(reader.lookup(u128::MAX).unwrap().port, 2);
    assert_eq!(reader.lookup(u128::MAX - 1).unwrap().port, 1);
    fib.clear();
    fib.publish();
    reader.refresh();
    assert_eq!(reader.lookup(u128::MAX), None);
}

#[test]
fn routes_are_held_once_and_their_indices_used_again() {
    let fib = Fib4::new().unwrap();
    for port in 0..MAX_HOPS as u32 {
        fib.insert(net(port << 8, 24), via(port)).unwrap();
    }
    let more = net(0xf000_0000, 24);
    assert_eq!(fib.insert(more, via(DEFAULT)), Err(LpmError::HopsExhausted));
    assert_eq!(fib.get(more), None);
    fib.insert(more, via(9)).unwrap();
    assert_eq!(fib.usage().0, MAX_HOPS);
    // Gone with its last prefix only.
    fib.remove(net(9 << 8, 24)).unwrap();
    assert_eq!(fib.insert(net(9 << 8, 24), via(DEFAULT)), Err(LpmError::HopsExhausted));
    fib.remove(more).unwrap();
    fib.insert(net(9 << 8, 24), via(DEFAULT)).unwrap();
    assert_eq!(fib.lookup_route(9 << 8), Some(via(DEFAULT)));
}

#[test]
fn a_table_full_of_long_prefixes_says_so_and_stays_right() {
    let fib = Fib4::new().unwrap();
    for block in 0..0x7fff {
        fib.insert(net(block << 8 | 1, 32), via(1)).unwrap();
    }
    let more = net(0xf000_0001, 32);
    assert_eq!(fib.insert(more, via(2)), Err(LpmError::GroupsExhausted));
    assert_eq!((fib.get(more), fib.lookup(0xf000_0001)), (None, None));
    fib.insert(net(2, 32), via(2)).unwrap();
    fib.remove(net(0x0100 | 1, 32)).unwrap();
    fib.insert(more, via(3)).unwrap();
    assert_eq!(fib.lookup_route(0xf000_0001), Some(via(3)));
    assert_eq!(fib.lookup_route(0x0101), None);
}

/// A reader must see the route from before or from after a change, whatever is reused in between:
/// the port always goes with the address, whichever of the two gateways is in force.
#[test]
fn readers_never_see_another_prefixes_route() {
    let rounds = if cfg!(debug_assertions) { 3_000 } else { 60_000 };
    let fib = Fib4::new().unwrap();
    fib.insert(Prefix4::default_route(), via(DEFAULT)).unwrap();
    let stop = AtomicBool::new(false);
    let seen = AtomicU64::new(0);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let addrs: Vec<u32> = (0..256).map(|n| n << 8 | 77).collect();
            let mut out = vec![Hop::NONE; addrs.len()];
            while !stop.load(Ordering::Relaxed) {
                fib.hop_batch(&addrs, &mut out);
                for (addr, hop) in addrs.iter().zip(&out) {
                    let port = hop.port(); // there is always the default route
                    assert!(port == DEFAULT || port == *addr >> 8, "{addr:x} to {port}");
                    seen.fetch_add(u64::from(port != DEFAULT), Ordering::Relaxed);
                }
            }
        });
        // More /24s than may wait in quarantine come and go, so groups and indices are reused.
        let mut random = Random::from_seed(1);
        // It goes on until the reader has met some of them: it may start late.
        let mut round = 0;
        while (round < rounds || seen.load(Ordering::Relaxed) < 1_000) && !reader.is_finished() {
            round += 1;
            let block = random.below(256) as u32;
            let prefix = net(block << 8 | 77, 32);
            if fib.remove(prefix).is_err() {
                fib.insert(prefix, via(block)).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// Many publications, so that both tries take turns and their holes are closed; one reader keeps
/// up, one lags and must go on seeing what was published when it last looked.
#[test]
fn a_poptrie_published_often_is_right_for_quick_and_slow_readers() {
    let table = synthetic::routes::<u128>(2_000, 5, 16, 4);
    let fib = Arc::new(Fib6::new());
    let (mut quick, mut slow) = (fib.reader(), fib.reader());
    let (mut rib, mut slow_rib) = (Rib6::new(), Rib6::new());
    let addrs = synthetic::traffic(&table, 200, 6);
    let expect = |reader: &Reader<u128>, rib: &Rib6<Route6>| {
        for &addr in &addrs {
            assert_eq!(reader.lookup(addr), rib.lookup(addr).map(|(_, &route)| route));
        }
    };
    let mut random = Random::from_seed(9);
    for round in 0..if cfg!(debug_assertions) { 150 } else { 600 } {
        for _ in 0..random.below(80) {
            let (prefix, route) = table[random.below(table.len() as u64) as usize];
            if rib.remove(prefix).is_some() {
                assert_eq!(fib.remove(prefix), Ok(route));
            } else {
                rib.replace(prefix, route);
                fib.insert(prefix, route).unwrap();
            }
        }
        fib.publish();
        quick.refresh();
        expect(&quick, &rib);
        if round % 5 == 0 {
            slow.refresh();
            slow_rib = rib.clone();
        }
        expect(&slow, &slow_rib);
    }
}

#[test]
fn synthetic_tables_repeat_and_are_spread_as_said() {
    let table = synthetic::prefixes::<u32>(50_000, 3);
    assert_eq!(table, synthetic::prefixes::<u32>(50_000, 3));
    assert_ne!(table, synthetic::prefixes::<u32>(50_000, 4));
    let share = |len| table.iter().filter(|p| p.len() == len).count() as f64 / 50_000.0;
    assert!((0.55..0.65).contains(&share(24)), "{}", share(24));
    let six = synthetic::prefixes::<u128>(20_000, 3);
    assert_eq!(six.len(), 20_000);
    assert!(six.iter().all(|prefix| prefix.first() >> 125 == 1));
}
