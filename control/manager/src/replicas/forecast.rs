//! The load that replicas are about to have: the trend of their packets, times what a packet costs
//! them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long is looked back: two halves, whose rates make a trend.
const SPAN: Duration = Duration::from_secs(10);
/// Packets from which on their cost counts.
const PACKETS_MIN: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    at: Instant,
    packets: u64,
    cpu_seconds: f64,
}

/// What was counted lately.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast(VecDeque<Sample>);

impl Forecast {
    /// Notes what all replicas were given and worked since they began, packets and seconds. Where
    /// that is less than before, others are counted: it begins anew.
    pub fn add(&mut self, at: Instant, packets: u64, cpu_seconds: f64) {
        let is_less = |last: &Sample| packets < last.packets || cpu_seconds < last.cpu_seconds;
        if self.0.back().is_some_and(is_less) {
            self.0.clear();
        }
        self.0.push_back(Sample { at, packets, cpu_seconds });
        // The oldest is the last that is a span away.
        while self.0.get(1).is_some_and(|second| at.duration_since(second.at) >= SPAN) {
            self.0.pop_front();
        }
    }

    /// How many processors they will keep busy after this time; `None` while too little is known.
    pub fn busy(&self, ahead: Duration) -> Option<f64> {
        let (first, last) = (*self.0.front()?, *self.0.back()?);
        let span = last.at.duration_since(first.at);
        let packets = last.packets - first.packets;
        if span < SPAN || packets < PACKETS_MIN {
            return None;
        }
        let half = span / 2;
        let middle = *self.0.iter().find(|sample| sample.at.duration_since(first.at) >= half)?;
        let rate = |from: Sample, to: Sample| {
            let time = to.at.duration_since(from.at).as_secs_f64();
            (to.packets - from.packets) as f64 / time.max(f64::MIN_POSITIVE)
        };
        let (early, late) = (rate(first, middle), rate(middle, last));
        // The rates are those of the middles of their halves.
        let half = half.as_secs_f64();
        let growth = (late - early) / half;
        let then = late + growth * (half / 2.0 + ahead.as_secs_f64());
        let cost = (last.cpu_seconds - first.cpu_seconds) / packets as f64;
        Some(then.max(0.0) * cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a second each, of so many packets; a packet costs a hundredth of a millisecond.
    fn after(rates: &[u64]) -> Forecast {
        let (begin, mut forecast) = (Instant::now(), Forecast::default());
        let mut packets = 0;
        forecast.add(begin, 0, 0.0);
        for (second, rate) in (1..).zip(rates) {
            packets += rate;
            forecast.add(begin + Duration::from_secs(second), packets, packets as f64 * 1e-5);
        }
        forecast
    }

    #[test]
    fn a_trend_goes_on() {
        let busy = |rates: &[u64]| after(rates).busy(Duration::from_secs(10));
        let close = |got: Option<f64>, wanted: f64| {
            let got = got.expect("enough is known");
            assert!((got - wanted).abs() < 0.02, "{got}, not {wanted}");
        };
        close(busy(&[50_000; 10]), 0.5);
        // By 5,000 a second: in the middle of the last second 50,000, ten seconds on 102,500.
        let rising: Vec<u64> = (1..=10).map(|second| second * 5_000).collect();
        close(busy(&rising), 1.025);
        let falling: Vec<u64> = (1..=10).rev().map(|second| second * 5_000).collect();
        close(busy(&falling), 0.0);
    }

    #[test]
    fn little_is_no_forecast_and_other_replicas_begin_anew() {
        let soon = Duration::from_secs(1);
        assert_eq!(after(&[50_000; 9]).busy(soon), None, "not long enough");
        assert_eq!(after(&[50; 10]).busy(soon), None, "too few packets");
        let mut others = after(&[50_000; 10]);
        others.add(Instant::now() + Duration::from_secs(11), 3, 0.0);
        assert_eq!(others.busy(soon), None);
    }
}
