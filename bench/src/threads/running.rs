//! A placement that is built, and runs from time to time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::ClockId;
use thruway_engine::{Options, Router};
use thruway_packet::cycles;

use super::elements::Ledger;
use super::placement::Placement;
use crate::latency::Latencies;
use crate::measure::read_clock;
use crate::registry;

/// Before the time that counts: threads start and caches fill.
const WARM_UP: Duration = Duration::from_millis(5);

/// What a run came to.
pub struct Done {
    /// Packets per second that arrived.
    pub rate: f64,
    /// From source to sink, of a sample.
    pub latencies: Latencies,
    /// Processor time of the program's threads, as a part of the cores' time.
    pub busy: f64,
}

/// Ticks of the time stamp counter in a nanosecond.
#[derive(Debug, Clone, Copy)]
pub struct Ticks(f64);

impl Ticks {
    /// Counts them for a while.
    pub fn measure() -> Ticks {
        let (begin, first) = (Instant::now(), cycles());
        std::thread::sleep(Duration::from_millis(20));
        let ticks = cycles().wrapping_sub(first);
        Ticks(ticks as f64 / begin.elapsed().as_nanos() as f64)
    }

    fn of(self, time: Duration) -> f64 {
        time.as_nanos() as f64 * self.0
    }
}

/// See the module.
pub struct Running {
    router: Router,
    ledger: Arc<Ledger>,
    placement: Placement,
    sources: usize,
}

impl Running {
    /// Builds the configuration.
    ///
    /// # Errors
    /// No memory for the stages' arrays.
    pub fn new(placement: Placement) -> anyhow::Result<Running> {
        let ledger = Arc::new(Ledger::new(placement.cores));
        let provided = Arc::clone(&ledger);
        let options = Options {
            threads: placement.cores,
            // One thread has no packet in flight between two rounds.
            drain: placement.cores > 1,
            provide: Some(Arc::new(move |shared| Arc::clone(&provided).provide(shared))),
            ..Options::default()
        };
        let text = placement.text();
        let sources = text.matches(":: BenchQueue").count();
        let router = registry::router(placement.name(), text, &options)?;
        Ok(Running { router, ledger, placement, sources })
    }

    /// Runs for a time, as fast as it goes or at so many packets per second.
    ///
    /// # Errors
    /// Packets that left no source and no sink: a bug.
    pub fn run(&mut self, time: Duration, rate: Option<f64>, ticks: Ticks) -> anyhow::Result<Done> {
        let begin = cycles() + ticks.of(WARM_UP) as u64;
        let length = ticks.of(time) as u64;
        let gap = rate.map_or(0.0, |rate| self.sources as f64 * ticks.0 * 1e9 / rate);
        self.ledger.set(begin, begin + length, gap);
        let (wall, cpu) = (Instant::now(), read_clock(ClockId::ProcessCPUTime));
        self.router.run_threads();
        let cpu = read_clock(ClockId::ProcessCPUTime).saturating_sub(cpu);
        let wall = wall.elapsed().as_nanos() as f64 * self.placement.cores as f64;
        self.router.write("end.flush", "")?;
        self.check()?;
        Ok(Done {
            rate: self.ledger.counted() as f64 * ticks.0 * 1e9 / length as f64,
            latencies: Latencies::new(self.ledger.samples(), 1.0 / ticks.0),
            busy: cpu as f64 / wall,
        })
    }

    /// All packets must have arrived.
    fn check(&mut self) -> anyhow::Result<()> {
        let mut sent = 0;
        for source in 0..self.sources {
            sent += self.router.read(&format!("q{source}.count"))?.trim().parse::<u64>()?;
        }
        let returned = self.ledger.returned();
        anyhow::ensure!(
            sent == returned,
            "{}: {returned} of {sent} packets arrived",
            self.placement.name()
        );
        Ok(())
    }
}
