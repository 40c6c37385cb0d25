//! The oracle of TCP in the middle: pairs of simulated end hosts, random connections over faulty
//! links, and what each end must receive: the whole stream, replaced as a whole.
//!
//! `THRUWAY_LONG=100000` runs so many connections instead of a few hundred (with `--release`);
//! `THRUWAY_SEED=n` runs one seed alone, `THRUWAY_TRACE=1` prints its packets.

mod app;
mod engine;
mod frame;
mod functions;
mod host;
mod link;
mod middle;
mod mutants;
mod offload;
mod pair;
mod plan;
mod trials;
mod world;

use middle::Identity;
use thruway_random::Random;
use world::{Failure, World};

/// Runs of a short test.
const SHORT: u64 = 150;
/// A test ends when so many seeds have failed; a long one when ten times as many have.
const FAILURES_SHOWN: usize = 5;

/// The seeds to run: one, or as many as wanted.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("THRUWAY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("THRUWAY_LONG").unwrap_or(SHORT),
    }
}

fn through_a_wire(seed: u64) -> Result<(), Failure> {
    let mut random = Random::from_seed(seed);
    let plans = plan::pairs(&mut random);
    let is_again = random.chance(200);
    let mut middle = Identity;
    let mut world = World::new(plans, &mut middle, random);
    world.run(|_, _, data| data.to_vec())?;
    if is_again {
        world.again();
        world.run(|_, _, data| data.to_vec())?;
    }
    world.be_forgotten()
}

/// Runs seeds and reports the first that fail, all of them if `THRUWAY_SEED` did not choose one.
/// `known` have failed before, when something was wrong, and run as well.
fn run_seeds(known: &[u64], run: impl Fn(u64) -> Result<(), Failure>) {
    let seeds = seeds();
    let count = seeds.end - seeds.start;
    let known = known.iter().copied().filter(|seed| count > 1 && !seeds.contains(seed));
    let seeds = seeds.clone().chain(known);
    let mut failed = Vec::new();
    for (done, seed) in seeds.enumerate() {
        if let Err(failure) = run(seed) {
            eprintln!("THRUWAY_SEED={seed}: {failure}");
            failed.push(seed);
        }
        if done > 0 && done % 10_000 == 0 {
            eprintln!("{done} of {count} seeds, {} failed", failed.len());
        }
        if failed.len() >= FAILURES_SHOWN * if count > SHORT { 10 } else { 1 } {
            break;
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?} of {count} failed; THRUWAY_TRACE=1 shows packets");
}

/// The simulator itself: over a wire nothing is to be found.
#[test]
fn a_wire_changes_nothing() {
    run_seeds(&[], through_a_wire);
}
