//! What the time costs on the packet path: packets that get the time, by either clock.

use anyhow::{anyhow, ensure};
use thruway_engine::{ClockKind, Options, Router};
use thruway_lang::{Source, Variables};

use crate::measure::Meter;
use crate::row::median;
use thruway::load::{self, Libraries};

/// Packets of a turn.
const PACKETS: u64 = 1_000_000;
/// Turns at most until the clock runs by the counter: some seconds.
const STABLE_TURNS: u32 = 100;
/// Packets of a round: with one, the time is read for each packet.
const BURSTS: [u32; 3] = [1, 4, 32];
/// The first one is the unit: time stands still, nothing is read.
const CLOCKS: [(&str, ClockKind); 3] =
    [("none", ClockKind::Simulated(0)), ("tsc", ClockKind::Tsc), ("system", ClockKind::System)];

/// Nanoseconds of CPU time per packet.
#[derive(Debug, Clone)]
pub struct Path {
    pub burst: u32,
    pub clock: &'static str,
    pub ns: f64,
    pub ns_min: f64,
    pub ns_max: f64,
    /// More than without a clock: the median of the turns.
    pub more_ns: f64,
}

/// A configuration, running from time to time.
struct Stamped(Router);

impl Stamped {
    fn new(burst: u32, clock: ClockKind) -> anyhow::Result<Stamped> {
        let text = format!(
            "source :: InfiniteSource(LENGTH 64, BURST {burst}, LIMIT 0, TIMESTAMP false, STOP true) \
             -> SetTimestamp -> out :: Discard"
        );
        let options = Options { clock, ..Options::default() };
        let error = |failure: load::Failure| anyhow!("{}", failure.pretty.render(false));
        let source = Source::new("bench clock", text);
        let (mut router, _) =
            load::build(source, &Variables::new(), &Libraries::new(""), &options).map_err(error)?;
        load::initialize(&mut router).map_err(error)?;
        let mut stamped = Stamped(router);
        for _ in 0..STABLE_TURNS {
            if clock != ClockKind::Tsc || stamped.0.read("statistics")?.contains("\trunning\t") {
                break;
            }
            stamped.turn(&mut Meter::new())?;
        }
        Ok(stamped)
    }

    /// CPU time per packet.
    fn turn(&mut self, meter: &mut Meter) -> anyhow::Result<f64> {
        self.0.write("source.limit", &PACKETS.to_string())?;
        self.0.write("source.reset", "")?;
        meter.time(|| self.0.run_threads());
        let made: u64 = self.0.read("source.count")?.trim().parse()?;
        ensure!(made == PACKETS, "{made} packets were made, not {PACKETS}");
        Ok(meter.take().cpu_ns as f64 / PACKETS as f64)
    }
}

/// Measures all, turn by turn.
///
/// # Errors
/// The configuration does not run.
pub fn measure(repeats: u32) -> anyhow::Result<Vec<Path>> {
    let mut rows = Vec::new();
    for burst in BURSTS {
        let mut meter = Meter::new();
        let made = CLOCKS.iter().map(|(_, clock)| Stamped::new(burst, *clock));
        let mut all = made.collect::<anyhow::Result<Vec<Stamped>>>()?;
        let mut turns: Vec<Vec<f64>> = Vec::new();
        for _ in 0..repeats {
            let one = all.iter_mut().map(|stamped| stamped.turn(&mut meter));
            turns.push(one.collect::<anyhow::Result<Vec<f64>>>()?);
        }
        rows.extend(CLOCKS.iter().enumerate().map(|(at, (clock, _))| {
            let ns = || turns.iter().map(|turn| turn[at]);
            Path {
                burst,
                clock,
                ns: median(ns()),
                ns_min: ns().fold(f64::INFINITY, f64::min),
                ns_max: ns().fold(0.0, f64::max),
                more_ns: median(turns.iter().map(|turn| turn[at] - turn[0])),
            }
        }));
    }
    Ok(rows)
}
