//! A contestant's turn: more than it can take, for some time.

use std::time::{Duration, Instant};

use anyhow::bail;
use thruway_port::generator::{Generator, Sink, Stream};

use super::contestant::Contestant;
use super::site::{Cores, GENERATOR_PRIORITY, Site, first_thread};
use crate::bench::child::cpu_ns;
use crate::bench::machine;
use crate::top::Sample;

/// How long the load lasts before it is measured.
const WARM_UP: Duration = Duration::from_millis(300);
/// What the generator is taken to make at first, frames a second.
const RATE: f64 = 5e6;
/// The load goes on so much longer than it is measured: the generator may be faster than the last
/// time.
const MARGIN: f64 = 1.5;
/// How often a turn that was too short is tried again.
const TRIES: u32 = 4;
/// How long frames that are under way may take.
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
    /// Arrived, per second of processor time of who forwards; of time in which it had something to do,
    /// where that is one thread of one process.
    pub per_core: f64,
    /// Made by the generator.
    pub made: f64,
}

/// Counts at one moment.
struct Moment {
    at: Instant,
    made: u64,
    arrived: u64,
    cpu_ns: u64,
    sample: Option<Sample>,
}

impl Moment {
    /// How long who forwards worked until a later moment, nanoseconds.
    fn work_ns(&self, later: &Moment) -> f64 {
        let (Some(from), Some(to)) = (&self.sample, &later.sample) else {
            return (later.cpu_ns - self.cpu_ns) as f64;
        };
        let idle = |sample: &Sample| sample.threads.iter().map(|one| one.idle_cycles).sum::<u64>();
        let idle = (idle(to) - idle(from)) as f64 / (to.cycles - from.cycles) as f64;
        (to.nanoseconds - from.nanoseconds) as f64 * (1.0 - idle)
    }
}

impl Load {
    /// Puts generator and sink at the ends of a site.
    pub fn new(site: &Site, flows: u32, len: usize, cores: Cores) -> anyhow::Result<Load> {
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
        let generator = site.sender.within(|| Generator::new(Site::OUT, &stream))??;
        let sink = site.receiver.within(|| Sink::attach(&site.far.name, flows))??;
        site.place_far(cores.receiver)?;
        Ok(Load { generator, sink, rate: RATE })
    }

    /// Frames made, arrived, and out of order among these, since the beginning.
    pub fn totals(&self) -> anyhow::Result<[u64; 3]> {
        // What is under way is on its way for microseconds.
        std::thread::sleep(QUIET);
        let counts = self.sink.counts()?;
        Ok([self.generator.made()?, counts.packets, counts.disordered])
    }

    /// Loads a contestant and measures for so long.
    pub fn measure(
        &mut self,
        contestant: &mut Contestant,
        time: Duration,
        cores: Cores,
    ) -> anyhow::Result<Rates> {
        for _ in 0..TRIES {
            if let Some((rates, work_ns)) = self.try_once(contestant, time, cores)? {
                if let Some(process) = &mut contestant.process {
                    process.check()?;
                }
                if work_ns <= 0.0 || rates.arrived == 0.0 {
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
        contestant: &Contestant,
        time: Duration,
        cores: Cores,
    ) -> anyhow::Result<Option<(Rates, f64)>> {
        let frames = self.rate * (WARM_UP + time).as_secs_f64() * MARGIN;
        let (begin, before) = (Instant::now(), self.generator.made()?);
        let count = self.generator.count();
        let (generator, sink) = (&mut self.generator, &self.sink);
        let pids = [contestant.reception, contestant.process.as_ref().map(|one| one.pid())];
        let moment = || -> anyhow::Result<Moment> {
            Ok(Moment {
                at: Instant::now(),
                made: count.made()?,
                arrived: sink.counts()?.packets,
                cpu_ns: pids.iter().flatten().map(|pid| cpu_ns(*pid)).sum(),
                sample: contestant.sample()?,
            })
        };
        let send = || -> anyhow::Result<Instant> {
            contestant.site.sender.within(|| {
                machine::bind(cores.load);
                first_thread(GENERATOR_PRIORITY)?;
                generator.send(frames as u32)?;
                Ok(Instant::now())
            })?
        };
        let (moments, end) = std::thread::scope(|scope| -> anyhow::Result<_> {
            let sending = scope.spawn(send);
            std::thread::sleep(WARM_UP);
            let from = moment();
            std::thread::sleep(time);
            let moments = from.and_then(|from| Ok([from, moment()?]));
            let end = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((moments?, end))
        })?;
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
        let (arrived, work_ns) = (to.arrived - from.arrived, from.work_ns(&to));
        let rates = Rates {
            arrived: million(arrived, seconds),
            per_core: million(arrived, work_ns / 1e9),
            made: million(to.made - from.made, seconds),
        };
        Ok(Some((rates, work_ns)))
    }
}
