//! How long lookups, changes and start-up take, over synthetic tables.
//!
//! `cargo run --release -p thruway-lpm --example lookup_rate [PREFIXES...]`
//!
//! Each row is the best of five passes over 4 Mi addresses in batches of 256: *traffic* draws a
//! prefix and then an address in it, *uniform* any address. `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`
//! shows what huge pages would bring.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use thruway_lpm::{Fib4, Hop, Key, PoptrieFib, Prefix, Prefix4, Route, synthetic};

const ADDRESSES: usize = 1 << 22;
const BATCH: usize = 256;
const PASSES: usize = 5;
const SEED: u64 = 1;

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![100_000, 500_000, 900_000, 1_000_000] } else { given };
    small_table();
    for prefixes in sizes {
        ipv4(prefixes);
        ipv4_base(prefixes);
        ipv4_poptrie(prefixes);
        ipv6(prefixes.min(250_000));
    }
}

/// Best of the passes, in ns per address.
fn rate<K: Copy>(addrs: &[K], mut lookup: impl FnMut(&[K])) -> f64 {
    let pass = |_| {
        let start = Instant::now();
        addrs.chunks(BATCH).for_each(&mut lookup);
        start.elapsed().as_secs_f64() * 1e9 / addrs.len() as f64
    };
    (0..PASSES).map(pass).fold(f64::INFINITY, f64::min)
}

fn row(table: &str, prefixes: usize, work: &str, ns: f64) {
    println!("{table:<14} {prefixes:>9} {work:<22} {ns:>8.2} ns {:>8.1} M/s", 1e3 / ns);
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn small_table() {
    let before = resident_kb();
    let start = Instant::now();
    let fib = Fib4::new().expect("memory");
    for (net, len) in [(0x0a00_0000, 8), (0xc0a8_0000, 16), (0xc0a8_0100, 24), (1, 32), (0, 0)] {
        let prefix = Prefix4::new(net, len).expect("a prefix");
        fib.insert(prefix, Route { gateway: net, port: len.into() }).expect("room");
    }
    let us = start.elapsed().as_secs_f64() * 1e6;
    println!("5 routes: {us:.0} us, {} kB resident", resident_kb() - before);
    let addrs = synthetic::uniform::<u32>(ADDRESSES, SEED);
    let mut out = [0; BATCH];
    row(
        "dir24_8",
        5,
        "uniform",
        rate(&addrs, |addrs| {
            fib.lookup_batch(addrs, &mut out);
            black_box(&out);
        }),
    );
    let local: Vec<_> = addrs.iter().map(|addr| 0x0a00_0000 | addr & 0xff).collect();
    row(
        "dir24_8",
        5,
        "one /24",
        rate(&local, |addrs| {
            fib.lookup_batch(addrs, &mut out);
            black_box(&out);
        }),
    );
    let mut routes = [Hop::NONE; BATCH];
    row(
        "dir24_8",
        5,
        "one /24, routes",
        rate(&local, |addrs| {
            fib.hop_batch(addrs, &mut routes);
            black_box(&routes);
        }),
    );
}

fn ipv4(prefixes: usize) {
    let table = synthetic::routes::<u32>(prefixes, SEED, synthetic::DEFAULT_HOPS, 4);
    let before = resident_kb();
    let fib = Fib4::new().expect("memory");
    let start = Instant::now();
    for &(prefix, route) in &table {
        fib.insert(prefix, route).expect("room");
    }
    let ns = start.elapsed().as_secs_f64() * 1e9 / table.len() as f64;
    row("dir24_8", prefixes, "insert", ns);
    println!("{:>24} {} kB resident with its base", "", resident_kb() - before);
    let mut out = [0; BATCH];
    let mut routes = [Hop::NONE; BATCH];
    for (what, addrs) in [
        ("traffic", synthetic::traffic(&table, ADDRESSES, 2)),
        ("uniform", synthetic::uniform(ADDRESSES, 3)),
    ] {
        row(
            "dir24_8",
            prefixes,
            what,
            rate(&addrs, |addrs| {
                fib.lookup_batch(addrs, &mut out);
                black_box(&out);
            }),
        );
        row(
            "dir24_8",
            prefixes,
            &format!("{what}, routes"),
            rate(&addrs, |addrs| {
                fib.hop_batch(addrs, &mut routes);
                black_box(&routes);
            }),
        );
        row(
            "dir24_8",
            prefixes,
            &format!("{what}, one by one"),
            rate(&addrs, |addrs| {
                for &addr in addrs {
                    black_box(fib.lookup(addr));
                }
            }),
        );
    }
    let start = Instant::now();
    for &(prefix, _) in &table {
        fib.remove(prefix).expect("it is there");
    }
    row("dir24_8", prefixes, "remove", start.elapsed().as_secs_f64() * 1e9 / table.len() as f64);
}

/// The base alone, as if packets were looked up in it.
fn ipv4_base(prefixes: usize) {
    let mut rib = thruway_lpm::Rib::new();
    let table = synthetic::routes::<u32>(prefixes, SEED, synthetic::DEFAULT_HOPS, 4);
    for &(prefix, route) in &table {
        rib.replace(prefix, route);
    }
    let addrs = synthetic::traffic(&table, ADDRESSES / 16, 2);
    let lookup = |addrs: &[u32]| {
        for &addr in addrs {
            black_box(rib.lookup(addr));
        }
    };
    row("base alone", prefixes, "traffic", rate(&addrs, lookup));
}

fn ipv4_poptrie(prefixes: usize) {
    let table = synthetic::routes::<u32>(prefixes, SEED, synthetic::DEFAULT_HOPS, 4);
    poptrie(
        "poptrie ipv4",
        &table,
        &[
            ("traffic", synthetic::traffic(&table, ADDRESSES, 2)),
            ("uniform", synthetic::uniform(ADDRESSES, 3)),
        ],
    );
}

fn ipv6(prefixes: usize) {
    let table = synthetic::routes::<u128>(prefixes, SEED, synthetic::DEFAULT_HOPS, 4);
    poptrie("poptrie ipv6", &table, &[("traffic", synthetic::traffic(&table, ADDRESSES, 2))]);
}

fn poptrie<K: Key>(name: &str, table: &[(Prefix<K>, Route<K>)], work: &[(&str, Vec<K>)]) {
    let fib = Arc::new(PoptrieFib::new());
    let start = Instant::now();
    for &(prefix, route) in table {
        fib.insert(prefix, route).expect("room");
    }
    let per_prefix = |start: Instant| start.elapsed().as_secs_f64() * 1e9 / table.len() as f64;
    row(name, table.len(), "insert into base", per_prefix(start));
    let start = Instant::now();
    fib.publish();
    row(name, table.len(), "first publication", per_prefix(start));
    println!("{:>24} {} kB of trie", "", fib.usage().1 / 1024);
    let changes = 200.min(table.len());
    let start = Instant::now();
    for &(prefix, route) in &table[..changes] {
        fib.remove(prefix).expect("it is there");
        fib.insert(prefix, route).expect("room");
        fib.publish();
    }
    let ns = start.elapsed().as_secs_f64() * 1e9 / changes as f64;
    row(name, table.len(), "change, publish each", ns);
    let reader = fib.reader();
    let mut out = [0; BATCH];
    for (what, addrs) in work {
        row(
            name,
            table.len(),
            what,
            rate(addrs, |addrs| {
                reader.lookup_batch(addrs, &mut out);
                black_box(&out);
            }),
        );
    }
}
