//! Nanoseconds per lookup and per new session in the table of one thread and level.
//!
//! `cargo run --release -p thruway-flow --example table_bench [SESSIONS...]`
//!
//! Recorded 2026-11-22 (AMD EPYC, 32 MB of L3, pages of 4 kB, a virtual machine of two cores shared
//! with many builds; time of the thread, of lookups the best of 15 runs). Lookups are in batches of
//! 64, uniform over all sessions, and store `seen` in the record; with "1" a batch is one packet.
//!
//! | sessions | keys each | lookup | absent | lookup, 1 | new | bytes each |
//! |---|---|---|---|---|---|---|
//! | 10,000 | 1 | 10.0 ns | 7.1 ns | 21.8 ns | 61 ns | 46.3 |
//! | 10,000 | 2 | 12.8 ns | 13.1 ns | 29.9 ns | 102 ns | 63.3 |
//! | 1,000,000 | 1 | 20.9 ns | 11.6 ns | 192 ns | 68 ns | 46.2 |
//! | 1,000,000 | 2 | 24.7 ns | 14.5 ns | 225 ns | 164 ns | 63.3 |
//! | 10,000,000 | 1 | 30.0 ns | 15.5 ns | 228 ns | 103 ns | 46.2 |
//! | 10,000,000 | 2 | 42.0 ns | 30.2 ns | 272 ns | 185 ns | 63.3 |
//!
//! What limits lookups of many sessions is memory: a line of the index and one of the record each,
//! and their page tables.
use rustix::time::{ClockId, clock_gettime};
use thruway_flow::Hasher;
use thruway_flow::table::{Found, Pool, Shape};

/// Keys looked up in one go, and how often that is repeated: the best counts.
const LOOKUPS: usize = 1 << 18;
const REPEATS: usize = 15;
/// Packets of a batch.
const BATCH: u32 = 256;

type Key = [u32; 4];

fn shape(alias: bool, sessions_max: u32) -> Shape {
    Shape {
        key_words: 4,
        alias,
        extra_words: 0,
        scratch_len: 0,
        scratch_align: 8,
        initial: Box::default(),
        sessions_max,
    }
}

fn key(n: u32) -> Key {
    [0x0a00_0000 | n & 0xffff, 0xc0a8_0001, n >> 16 << 16 | 443, 6]
}

/// The second key of the same session.
fn reply(n: u32) -> Key {
    let [source, destination, ports, protocol] = key(n);
    [destination, source, ports, protocol]
}

/// The same keys everywhere.
struct Random(thruway_random::Random);

impl Random {
    fn uniform(&mut self, n: u32) -> u32 {
        self.0.below(n.into()) as u32
    }

    /// Zipf's law: the session of rank r is drawn about as often as 1/r. Ranks are spread over
    /// the sessions.
    fn zipf(&mut self, n: u32) -> u32 {
        let share = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = f64::from(n).powf(share) as u64;
        (rank * 2_654_435_761 % u64::from(n)) as u32
    }
}

/// Time that this thread has run for, in nanoseconds: what others took of the core is not in it.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A batch of new sessions, as it comes with packets: looked up, then inserted.
fn begin_batch(pool: &mut Pool, numbers: std::ops::Range<u32>, alias: bool) {
    let mut found = [Found::NONE; BATCH as usize];
    let found = &mut found[..numbers.len()];
    let mut keys = [[0; 4]; BATCH as usize];
    let keys = &mut keys[..numbers.len()];
    for key_of in if alias { &[reply, key][..] } else { &[key as fn(u32) -> Key][..] } {
        keys.iter_mut().zip(numbers.clone()).for_each(|(key, n)| *key = key_of(n));
        pool.find_batch(keys, found);
    }
    for (key, n) in keys.iter().zip(numbers) {
        let index = pool.insert(key).expect("room for all sessions");
        if alias {
            pool.alias(index, &reply(n)).expect("room for all second keys");
        }
    }
}

/// How long batches took.
fn distribution(name: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let us = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    let [half, p99, p999, worst] = [0.5, 0.99, 0.999, 1.0].map(us);
    let long = times.iter().filter(|time| **time > 50_000).count();
    println!(
        "  {name}: median {half:.1} us, 99 % {p99:.1}, 99.9 % {p999:.1}, worst {worst:.1}; \
         above 50 us: {long} of {}",
        times.len()
    );
}

/// From no session to so many. Then as many batches of work that touches no memory, as
/// long as the usual one: how much the machine alone makes them differ.
fn fill(sessions: u32, alias: bool) -> Pool {
    let mut pool = Pool::new(shape(alias, sessions), Hasher::new([1, 2]));
    let mut times = Vec::with_capacity(sessions.div_ceil(BATCH) as usize);
    for from in (0..sessions).step_by(BATCH as usize) {
        let begin = cpu_ns();
        begin_batch(&mut pool, from..(from + BATCH).min(sessions), alias);
        times.push(cpu_ns() - begin);
    }
    let each = times.iter().sum::<u64>() / u64::from(sessions);
    println!("{sessions} sessions{}", if alias { " of two keys" } else { "" });
    println!(
        "  {:.1} bytes each, {:?}",
        pool.memory_bytes() as f64 / f64::from(sessions),
        pool.load()
    );
    println!("  new: {each} ns each");
    let (hasher, usual) = (Hasher::new([3, 4]), 2 * each * u64::from(BATCH) / 7);
    let idle = times.iter().map(|_| {
        let begin = cpu_ns();
        let sum = (0..usual as u32).fold(0, |sum, n| sum ^ hasher.hash(&[n, sum as u32, 0, 6]));
        std::hint::black_box(sum);
        cpu_ns() - begin
    });
    let idle = idle.collect();
    distribution("batches of 256 new", times);
    distribution("the same without memory", idle);
    pool
}

/// Lookups with the store that every packet makes, nanoseconds each.
fn lookups(pool: &mut Pool, keys: &[Key], batch: usize) -> f64 {
    let mut found = [Found::NONE; BATCH as usize];
    let begin = cpu_ns();
    for (now, keys) in keys.chunks(batch).enumerate() {
        let found = &mut found[..keys.len()];
        pool.find_batch(keys, found);
        for index in found.iter().filter_map(|found| found.index()) {
            pool.head_mut(index).seen = now as u32;
        }
    }
    (cpu_ns() - begin) as f64 / keys.len() as f64
}

fn row(pool: &mut Pool, name: &str, mut draw: impl FnMut(&mut Random) -> Key) {
    let mut random = Random(thruway_random::Random::from_seed(7));
    let mut best = [f64::MAX; 4];
    for _ in 0..REPEATS {
        let keys: Vec<Key> = (0..LOOKUPS).map(|_| draw(&mut random)).collect();
        for (best, batch) in best.iter_mut().zip([1, 16, 64, BATCH as usize]) {
            *best = best.min(lookups(pool, &keys, batch));
        }
    }
    println!("  {name:8} {:8.1}{:8.1}{:8.1}{:8.1}", best[0], best[1], best[2], best[3]);
}

fn main() {
    let sizes: Vec<u32> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10_000, 1_000_000, 10_000_000] } else { sizes };
    for (sessions, alias) in sizes.iter().flat_map(|n| [(*n, false), (*n, true)]) {
        let pool = &mut fill(sessions, alias);
        println!("  ns per lookup, batches of 1, 16, 64, 256");
        row(pool, "uniform", |random| key(random.uniform(sessions)));
        row(pool, "zipf", |random| key(random.zipf(sessions)));
        row(pool, "absent", |random| key(sessions + random.uniform(sessions)));
        if alias {
            row(pool, "replies", |random| reply(random.uniform(sessions)));
        }
    }
}
