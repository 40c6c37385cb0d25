//! Nanoseconds per operation of the tables, by how full they are, one thread, keys at random:
//! `cargo run --release -p thruway-table --example rate`

use std::hint::black_box;
use std::time::Instant;

use thruway_random::Random;
use thruway_table::{AgingTable, DenseTable, TICK_NS};

/// Operations in all.
const COUNT: usize = 8 << 20;
/// Operations that are timed together: about a millisecond, so that some times are undisturbed. The
/// fastest tenth begins with the time that is reported.
const CHUNK: usize = 1 << 16;

/// `COUNT` numbers below `bound`.
fn numbers(bound: usize) -> Vec<u32> {
    let mut random = Random::from_seed(7);
    (0..COUNT).map(|_| random.below(bound as u64) as u32).collect()
}

fn nanoseconds<T>(numbers: &[u32], mut operation: impl FnMut(u32) -> T) -> f64 {
    let mut chunk = |chunk: &[u32]| {
        let begin = Instant::now();
        for number in chunk {
            black_box(operation(*number));
        }
        begin.elapsed().as_secs_f64() * 1e9 / chunk.len() as f64
    };
    let mut times: Vec<f64> = numbers.chunks(CHUNK).map(&mut chunk).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}

fn main() -> Result<(), thruway_table::DenseError> {
    println!("entries  learn, refreshed  learn, known   find  dense get");
    for entries in [1 << 10, 1 << 14, 1 << 16, 1 << 20] {
        let numbers = numbers(entries);
        let key = |number: u32| 1 << 63 | 0x0200_0000_0000 | u64::from(number);
        let aging = AgingTable::<1>::new(entries, 300_000_000_000);
        let dense = DenseTable::<3>::new(20, entries)?;
        for number in 0..entries as u32 {
            aging.learn(key(number), [1], 0);
            dense.set(number, [1, 2, 3])?;
        }
        let mut now = 0;
        let refreshed = nanoseconds(&numbers, |number| {
            // More than the period in which a repeated entry is not written.
            now += 2000 * TICK_NS;
            aging.learn(key(number), [1], now)
        });
        for number in 0..entries as u32 {
            aging.learn(key(number), [1], now);
        }
        let known = nanoseconds(&numbers, |number| aging.learn(key(number), [1], now));
        let find = nanoseconds(&numbers, |number| aging.find(key(number), now));
        let get = nanoseconds(&numbers, |number| dense.get(number));
        println!("{entries:7}  {refreshed:16.1}  {known:12.1}  {find:5.1}  {get:9.1}");
    }
    Ok(())
}
