//! Latency of frames through a contestant, at parts of its rate: from when the
//! generator made one until the sink saw it. The far end's timer is part of it, as an interrupt
//! that a card moderates would be.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_port::generator::Histogram;

use super::site::{Cores, GENERATOR_PRIORITY, first_thread};
use super::system::System;
use super::turn::Load;
use crate::machine;

/// Percent of the rate that a contestant took.
pub const PERCENTS: [u32; 2] = [10, 50];
/// How long the load lasts before latencies count.
const WARM_UP: Duration = Duration::from_millis(100);

/// Of one case, at one rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    percent: u32,
    /// Frames a second that were to be made.
    rate: u32,
    made: u64,
    lost: u64,
    /// Median, 99th percentile and longest, microseconds.
    us: [f64; 3],
}

impl Latency {
    fn new(percent: u32, rate: u32, made: u64, arrived: u64, times: &Histogram) -> Latency {
        let ns = [times.percentile_ns(50.0), times.percentile_ns(99.0), times.longest_ns()];
        let us = ns.map(|ns| ns as f64 / 1e3);
        Latency { percent, rate, made, lost: made.saturating_sub(arrived), us }
    }

    /// Loads a contestant with a part of its rate, which is in millions a second, for so long.
    pub fn measure(
        percent: u32,
        mpps: f64,
        (load, system): (&mut Load, &System),
        time: Duration,
        cores: Cores,
    ) -> anyhow::Result<Latency> {
        let rate = part(mpps, percent);
        let frames = |time: Duration| (f64::from(rate) * time.as_secs_f64()).ceil() as u32;
        let send = |load: &mut Load, time| {
            system.site.sender.within(|| -> anyhow::Result<()> {
                machine::bind(cores.load);
                first_thread(GENERATOR_PRIORITY)?;
                Ok(load.generator.send_at(frames(time), rate)?)
            })?
        };
        send(load, WARM_UP)?;
        let [made, arrived, _] = load.totals()?;
        load.sink.take_latencies()?;
        send(load, time)?;
        let [all_made, all_arrived, _] = load.totals()?;
        let times = load.sink.take_latencies()?;
        Ok(Latency::new(percent, rate, all_made - made, all_arrived - arrived, &times))
    }

    fn json(&self) -> Value {
        let us = self.us.map(|us| (us * 10.0).round() / 10.0);
        json!({
            "percent": self.percent, "pps": self.rate, "made": self.made, "lost": self.lost,
            "us_p50_p99_max": us,
        })
    }
}

/// So many percent of a rate in millions a second; at least one a second.
fn part(mpps: f64, percent: u32) -> u32 {
    ((mpps * 1e4 * f64::from(percent)).round() as u32).max(1)
}

/// All of a case, in JSON.
pub fn json(all: &[Latency]) -> Vec<Value> {
    all.iter().map(Latency::json).collect()
}

/// The table of all cases, for people.
pub fn table<'a>(rows: impl Iterator<Item = (&'a str, &'a [Latency])>) -> String {
    let mut text = format!(
        "latency, us, from generator to sink\n{:20} {:>6} {:>10} {:>9} {:>9} {:>9} {:>7}\n",
        "case", "load %", "packets/s", "p50", "p99", "max", "lost"
    );
    for (case, all) in rows {
        for Latency { percent, rate, lost, us: [p50, p99, most], .. } in all {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{case:20} {percent:>6} {rate:>10} {p50:>9.1} {p99:>9.1} {most:>9.1} {lost:>7}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_rate() {
        assert_eq!((part(1.25, 10), part(1.25, 50), part(0.0, 50)), (125_000, 625_000, 1));
    }

    #[test]
    fn what_is_told() {
        let us = [1.04, 20.06, 300.0];
        let latency = Latency { percent: 10, rate: 120_000, made: 100, lost: 3, us };
        let row = latency.json();
        assert_eq!(row["us_p50_p99_max"], json!([1.0, 20.1, 300.0]));
        assert_eq!(row["lost"], 3);
        let text = table([("xdp/route", &[latency][..])].into_iter());
        let line = text.lines().last().expect("a row");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["xdp/route", "10", "120000", "1.0", "20.1", "300.0", "3"]);
    }
}
