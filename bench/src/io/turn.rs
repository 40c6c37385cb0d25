//! A contestant's turn: more than it can take, for some time.

use std::time::{Duration, Instant};

use anyhow::bail;
use thruway_port::generator::{Generator, Sink, Stream};

use super::guard::Guard;
use super::site::{Cores, GENERATOR_PRIORITY, MEASURER_PRIORITY, Testbed, first_thread};
use super::system::System;
use super::{companion::Companion, peer};
use crate::machine;

/// How long the load lasts before it is measured.
const WARM_UP: Duration = Duration::from_millis(300);
/// What the generator is taken to make at first, frames a second.
const RATE: f64 = 5e6;
/// The load goes on so much longer than it is measured: the generator may be faster than the last
/// time.
const MARGIN: f64 = 1.5;
/// How often a turn that was too short is tried again.
const TRIES: u32 = 4;
/// The longest time of frames in flight.
const QUIET: Duration = Duration::from_millis(30);

/// What loads a contestant.
pub struct Load {
    pub(super) generator: Generator,
    pub(super) sink: Sink,
    /// Frames a second that were made the last time.
    rate: f64,
}

/// Millions of packets a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Arrived.
    pub arrived: f64,
    /// Arrived, per second of processor time of the forwarder; of busy time, if it is one thread of
    /// one process.
    pub per_core: f64,
    /// Made by the generator.
    pub made: f64,
    /// Of a contestant that has no name: what part of its core's time seemed to be its work before
    /// there was load.
    pub busy_before: Option<f64>,
}

/// Counts at one moment.
struct Moment {
    at: Instant,
    made: u64,
    arrived: u64,
    used_ns: u64,
}

impl Load {
    /// Puts generator and sink at the ends of a site.
    pub fn new(site: &Testbed, flows: u32, len: usize, cores: Cores) -> anyhow::Result<Load> {
        let stream = Stream {
            destination_mac: site.wan.mac,
            source_mac: [2, 0, 0, 0, 0, 2],
            source: [10, 9, 0, 2].into(),
            destination: [10, 0, 0, 1].into(),
            source_port: 1024,
            destination_port: 9,
            flows,
            networks: 4,
            len,
        };
        let generator = site.sender.within(|| Generator::new(Testbed::OUT, &stream))??;
        let sink = site.receiver.within(|| Sink::attach(&site.far.name, flows))??;
        site.pin_far(cores.receiver)?;
        Ok(Load { generator, sink, rate: RATE })
    }

    /// Frames made, arrived, and out of order among these, since the beginning.
    pub fn totals(&self) -> anyhow::Result<[u64; 3]> {
        // Frames in flight arrive within microseconds.
        std::thread::sleep(QUIET);
        let counts = self.sink.counts()?;
        Ok([self.generator.made()?, counts.packets, counts.disordered])
    }

    /// Loads a contestant and measures for so long.
    pub fn measure(
        &mut self,
        system: &mut System,
        time: Duration,
        cores: Cores,
    ) -> anyhow::Result<Rates> {
        for _ in 0..TRIES {
            system.work(true)?;
            let (load, one) = (&mut *self, &*system);
            let done = std::thread::scope(|scope| {
                // The contestants may take both cores, and the measuring thread must be on time.
                // The threads and programs that it starts have its priority, until they change it.
                let trial = scope.spawn(move || {
                    first_thread(MEASURER_PRIORITY)?;
                    load.try_once(one, time, cores)
                });
                trial.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            system.work(false)?;
            if let Some((rates, used_ns)) = done? {
                if let Some(process) = &mut system.process {
                    process.check()?;
                }
                if used_ns == 0 || rates.arrived == 0.0 {
                    bail!("nothing was forwarded");
                }
                return Ok(rates);
            }
        }
        bail!("the generator's rate varies too much")
    }

    /// `None` if the load ended before the time.
    fn try_once(
        &mut self,
        system: &System,
        time: Duration,
        cores: Cores,
    ) -> anyhow::Result<Option<(Rates, u64)>> {
        let guard = match system.has_nobody {
            true => Some(Guard::begin(cores.forwarding)?),
            false => None,
        };
        let frames = self.rate * (WARM_UP + time).as_secs_f64() * MARGIN;
        let (begin, before) = (Instant::now(), self.generator.made()?);
        let count = self.generator.count();
        let (generator, sink) = (&mut self.generator, &self.sink);
        let moment = || -> anyhow::Result<Moment> {
            Ok(Moment {
                at: Instant::now(),
                made: count.made()?,
                arrived: sink.counts()?.packets,
                used_ns: guard.as_ref().map_or_else(|| system.used_ns(), Guard::taken_ns),
            })
        };
        let send = || -> anyhow::Result<Instant> {
            system.site.sender.within(|| {
                machine::bind(cores.load);
                first_thread(GENERATOR_PRIORITY)?;
                generator.send(frames as u32)?;
                Ok(Instant::now())
            })?
        };
        let peer = system.has_peer.then(|| peer::begin(cores.forwarding));
        let (moments, end) = std::thread::scope(|scope| -> anyhow::Result<_> {
            let sending = scope.spawn(send);
            std::thread::sleep(WARM_UP);
            let from = moment();
            std::thread::sleep(time);
            let moments = from.and_then(|from| Ok([from, moment()?]));
            let end = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((moments?, end))
        })?;
        peer.map_or(Ok(()), Companion::end)?;
        let made = count.made()? - before;
        self.rate = made as f64 / (end - begin).as_secs_f64();
        let [from, to] = moments;
        if end < to.at {
            // It was faster than expected, and its set-up counts in short runs.
            self.rate *= MARGIN;
            return Ok(None);
        }
        let million = |count: u64, seconds: f64| count as f64 / 1e6 / seconds;
        let seconds = (to.at - from.at).as_secs_f64();
        let arrived = to.arrived - from.arrived;
        let used_ns = to.used_ns.saturating_sub(from.used_ns);
        let rates = Rates {
            arrived: million(arrived, seconds),
            per_core: million(arrived, used_ns as f64 / 1e9),
            made: million(to.made - from.made, seconds),
            busy_before: guard.map(|guard| guard.busy_before()),
        };
        Ok(Some((rates, used_ns)))
    }
}
