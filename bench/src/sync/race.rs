//! Threads, each on a core of its own, that add and read.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::time::ClockId;
use thruway_sync::Tally;
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::subject::Join;
use crate::latency::Latencies;
use crate::machine;
use crate::measure::read_clock;

/// What is added: a batch of packets of 64 bytes.
const PACKETS: u64 = 32;
const BATCH: [u64; 2] = [PACKETS, PACKETS * 64];

/// Operations between two looks whether another thread said that time is over, and between two at
/// the clock; or one turn's, if these are more.
const STRIDE: u32 = 32;
const CLOCK_STRIDE: u32 = 1_024;

/// Timed operations of a thread.
const TIMES_MAX: usize = 200_000;

/// What a thread does, again and again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Role {
    /// So many times add a batch,
    pub writes: u32,
    /// then read so many times.
    pub reads: u32,
    /// Multiplications before each add, and before each read that is timed: one depends on the
    /// other, and each takes about half a nanosecond.
    pub work: u32,
    /// Whether each operation's time is reported.
    pub is_timed: bool,
}

/// What threads did in a time.
#[derive(Debug, Default)]
pub struct Done {
    /// Adds, and reads.
    pub writes: u64,
    pub reads: u64,
    /// Nanoseconds of processor time, of all threads.
    pub cpu_ns: u64,
    /// The part of the time that all threads together had a processor.
    pub overlap: f64,
    /// The part of what was added that is missing at the end.
    pub lost: f64,
    /// Times of operations of the threads that are timed.
    pub times: Latencies,
}

/// One thread's.
#[derive(Default)]
struct Ran {
    writes: u64,
    reads: u64,
    cpu_ns: u64,
    wall_ns: u64,
    times: Vec<u64>,
}

/// Lets a thread of each role run for a time.
///
/// # Errors
/// Fewer cores than roles.
pub fn run(roles: &[Role], join: &Join, time: Duration) -> anyhow::Result<Done> {
    let cores = machine::allowed();
    if cores.len() < roles.len() {
        bail!("{} threads want as many cores; there are {}", roles.len(), cores.len());
    }
    let tallies = roles.iter().map(|_| join()).collect::<Result<Vec<_>, _>>()?;
    let (over, barrier) = (&AtomicBool::new(false), &Barrier::new(roles.len()));
    let ran = thread::scope(|scope| {
        let threads: Vec<_> = (roles.iter().zip(tallies).zip(cores))
            .map(|((role, mut tally), core)| {
                scope.spawn(move || {
                    machine::bind(core);
                    barrier.wait();
                    role.play(tally.as_mut(), time, over)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Result<Vec<_>, _>>()
    });
    let Ok(ran) = ran else { bail!("a thread panicked") };
    let mut done = Done::default();
    for one in &ran {
        done.writes += one.writes;
        done.reads += one.reads;
        done.cpu_ns += one.cpu_ns;
    }
    let wall: u64 = ran.iter().map(|one| one.wall_ns).sum();
    done.overlap = done.cpu_ns as f64 / wall.max(1) as f64;
    done.times = Latencies::new(ran.into_iter().flat_map(|one| one.times).collect(), 1.0);
    done.lost = lost(done.writes, join()?.totals());
    Ok(done)
}

/// The part of so many batches that is not in the sums, which are only ever lost together with it.
fn lost(writes: u64, totals: [u64; 2]) -> f64 {
    let part = |at: usize| {
        let added = (writes * BATCH[at]).max(1) as f64;
        (added - totals[at] as f64) / added
    };
    if writes == 0 { 0.0 } else { part(0).max(part(1)) }
}

impl Role {
    /// Goes on until this or another thread finds that the time is over. (Nobody else could say
    /// so: with real-time priority these threads leave no core to others.)
    fn play(&self, tally: &mut dyn Tally, time: Duration, over: &AtomicBool) -> Ran {
        let mut ran = Ran::default();
        if self.is_timed {
            ran.times.reserve_exact(TIMES_MAX);
        }
        let operations = (self.writes + self.reads).max(1);
        let turns = (STRIDE / operations).max(1);
        let looks = (CLOCK_STRIDE / (operations * turns)).max(1);
        let (wall, cpu) = (Instant::now(), read_clock(ClockId::ThreadCPUTime));
        while !over.load(Ordering::Relaxed) {
            for _ in 0..looks {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                (0..turns).for_each(|_| self.turn(tally, &mut ran));
            }
            if wall.elapsed() >= time {
                over.store(true, Ordering::Relaxed);
            }
        }
        ran.cpu_ns = read_clock(ClockId::ThreadCPUTime).saturating_sub(cpu);
        ran.wall_ns = wall.elapsed().as_nanos() as u64;
        ran
    }

    #[inline]
    fn turn(&self, tally: &mut dyn Tally, ran: &mut Ran) {
        for _ in 0..self.writes {
            self.pause();
            self.time(ran, || tally.add(BATCH));
        }
        for _ in 0..self.reads {
            if self.is_timed {
                self.pause();
            }
            self.time(ran, || {
                black_box(tally.totals());
            });
        }
        ran.writes += u64::from(self.writes);
        ran.reads += u64::from(self.reads);
    }

    #[inline]
    fn pause(&self) {
        let product = (0..self.work).fold(1_u64, |product, at| {
            black_box(product.wrapping_mul(3).wrapping_add(u64::from(at)))
        });
        black_box(product);
    }

    #[inline]
    fn time(&self, ran: &mut Ran, operation: impl FnOnce()) {
        if !self.is_timed || ran.times.len() == TIMES_MAX {
            operation();
            return;
        }
        let start = Instant::now();
        operation();
        ran.times.push(start.elapsed().as_nanos() as u64);
    }
}
