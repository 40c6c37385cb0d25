//! How many replicas the load asks for.

use std::time::{Duration, Instant};

use super::forecast::Forecast;
use super::spec::Scaling;

/// How long packets must wait before a replica is added: a burst is over by then.
const OVERLOAD: Duration = Duration::from_secs(2);
/// How long a change is given to show.
const SHOW_TIME: Duration = Duration::from_secs(5);
/// Part of the limit below which few packets wait.
const FEW: f64 = 0.25;
/// Part of the time that replicas may work, where there is one fewer of them.
const BUSY: f64 = 0.7;
/// Part of the time above which they will be too busy.
const FULL: f64 = 0.85;

/// The load of a function's replicas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Replicas that get sessions.
    pub up: usize,
    /// Packets that wait for all of them.
    pub waiting: u64,
    /// Packets that all of them were given.
    pub packets: u64,
    /// Processor time of all of them, seconds.
    pub cpu_seconds: f64,
}

/// Why there is no further replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// There are as many as may be.
    Max,
    /// The host has no more cores.
    Cores,
}

/// What follows from the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// How many replicas there are to be.
    pub wanted: u16,
    /// What keeps it from more.
    pub bound: Option<Bound>,
    /// The processors that they would keep busy soon, where that is why.
    pub forecast: Option<f64>,
}

impl Decision {
    fn of(wanted: u16) -> Decision {
        Decision { wanted, bound: None, forecast: None }
    }
}

/// Follows the load of a function.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scaler {
    /// Since when too many packets wait.
    over: Option<Instant>,
    /// Since when few packets wait, and the processor time then.
    calm: Option<(Instant, f64)>,
    changed: Option<Instant>,
    forecast: Forecast,
}

impl Scaler {
    /// How many replicas there are to be of `wanted` on a host of so many cores.
    pub fn decide(
        &mut self,
        scaling: &Scaling,
        (wanted, cores): (u16, usize),
        load: &Load,
        now: Instant,
    ) -> Decision {
        if scaling.ahead.is_some() {
            self.forecast.add(now, load.packets, load.cpu_seconds);
        }
        let each = load.waiting as f64 / load.up.max(1) as f64;
        let limit = scaling.waiting as f64;
        if each < limit {
            self.over = None;
        }
        if each >= limit * FEW {
            self.calm = None;
        }
        let is_showing = |since: Instant| now.duration_since(since) < SHOW_TIME;
        if load.up < usize::from(wanted) || self.changed.is_some_and(is_showing) {
            (self.over, self.calm) = (None, None);
            return Decision::of(wanted);
        }
        if each >= limit {
            let since = *self.over.get_or_insert(now);
            return match now.duration_since(since) < OVERLOAD {
                true => Decision::of(wanted),
                false => self.grow(scaling, (wanted, cores), now),
            };
        }
        let soon = scaling.ahead.and_then(|ahead| self.forecast.busy(ahead));
        let forecast = soon.filter(|busy| *busy > FULL * f64::from(wanted));
        if forecast.is_some() {
            return Decision { forecast, ..self.grow(scaling, (wanted, cores), now) };
        }
        let would_suffice = soon.is_none_or(|busy| busy <= BUSY * f64::from(wanted - 1));
        if each < limit * FEW && wanted > scaling.min && would_suffice {
            return Decision::of(self.shrink(scaling, wanted, load, now));
        }
        Decision::of(wanted)
    }

    fn grow(&mut self, scaling: &Scaling, (wanted, cores): (u16, usize), now: Instant) -> Decision {
        if wanted >= scaling.max {
            return Decision { bound: Some(Bound::Max), ..Decision::of(wanted) };
        }
        if usize::from(wanted) >= cores {
            return Decision { bound: Some(Bound::Cores), ..Decision::of(wanted) };
        }
        self.change(now);
        Decision::of(wanted + 1)
    }

    fn shrink(&mut self, scaling: &Scaling, wanted: u16, load: &Load, now: Instant) -> u16 {
        let (since, cpu) = *self.calm.get_or_insert((now, load.cpu_seconds));
        let lasted = now.duration_since(since);
        if lasted < scaling.calm {
            return wanted;
        }
        let worked = (load.cpu_seconds - cpu) / lasted.as_secs_f64().max(f64::MIN_POSITIVE);
        self.calm = None;
        // A process that was started again counts anew.
        if worked < 0.0 || worked > BUSY * f64::from(wanted - 1) {
            return wanted;
        }
        self.change(now);
        wanted - 1
    }

    fn change(&mut self, now: Instant) {
        *self = Scaler { changed: Some(now), ..Scaler::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALING: Scaling =
        Scaling { min: 1, max: 3, waiting: 100, calm: Duration::from_secs(10), ahead: None };

    /// A second of the clock after the other, each with so many packets that wait for each replica
    /// and such a part of the time that all work; how many are wanted in the end.
    fn follow(scaler: &mut Scaler, from: (Instant, u16), seconds: u64, load: (u64, f64)) -> u16 {
        let (begin, mut wanted) = from;
        // Its processor time begins anew, too.
        scaler.calm = None;
        for second in 0..seconds {
            let load = Load {
                up: wanted.into(),
                waiting: load.0 * u64::from(wanted),
                packets: 0,
                cpu_seconds: load.1 * second as f64,
            };
            let now = begin + Duration::from_secs(second);
            wanted = scaler.decide(&SCALING, (wanted, 8), &load, now).wanted;
        }
        wanted
    }

    #[test]
    fn replicas_follow_the_load_within_bounds_and_not_at_once() {
        let (begin, mut scaler) = (Instant::now(), Scaler::default());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(follow(&mut scaler, (at(0), 1), 2, (500, 1.0)), 1, "a burst");
        assert_eq!(follow(&mut scaler, (at(10), 1), 3, (500, 1.0)), 2);
        assert_eq!(follow(&mut scaler, (at(13), 2), 4, (500, 1.0)), 2, "it settles");
        assert_eq!(follow(&mut scaler, (at(20), 2), 60, (500, 2.0)), 3, "to the bound");
        assert_eq!(follow(&mut scaler, (at(100), 3), 60, (50, 0.1)), 3, "between the limits");
        assert_eq!(follow(&mut scaler, (at(200), 3), 60, (0, 2.5)), 3, "two would be too busy");
        assert_eq!(follow(&mut scaler, (at(300), 3), 11, (0, 1.0)), 2);
        assert_eq!(follow(&mut scaler, (at(400), 2), 60, (0, 0.8)), 2, "one would be too busy");
        assert_eq!(follow(&mut scaler, (at(500), 2), 60, (0, 0.1)), 1, "to the bound");
    }

    #[test]
    fn a_replica_that_would_have_no_core_is_not_added() {
        let mut scaler = Scaler::default();
        let load = Load { up: 2, waiting: 900, packets: 0, cpu_seconds: 0.0 };
        let begin = Instant::now();
        let decide = |scaler: &mut Scaler, seconds, cores| {
            let now = begin + Duration::from_secs(seconds);
            let decision = scaler.decide(&SCALING, (2, cores), &load, now);
            (decision.wanted, decision.bound)
        };
        assert_eq!(decide(&mut scaler, 0, 2), (2, None));
        assert_eq!(decide(&mut scaler, 2, 2), (2, Some(Bound::Cores)));
        assert_eq!(decide(&mut scaler, 3, 3), (3, None));
    }

    /// A second after the other, of so many packets, each of which costs ten microseconds, while
    /// none waits: the seconds in which the number of replicas changed, and to what.
    fn forecast(
        ahead: Option<u64>,
        mut wanted: u16,
        rates: impl Iterator<Item = u64>,
    ) -> Vec<(u64, u16)> {
        let scaling = Scaling { ahead: ahead.map(Duration::from_secs), ..SCALING };
        let (begin, mut scaler) = (Instant::now(), Scaler::default());
        let (mut packets, mut changes) = (0, Vec::new());
        for (second, rate) in (0..).zip(rates) {
            packets += rate;
            let cpu_seconds = packets as f64 * 1e-5;
            let load = Load { up: wanted.into(), waiting: 0, packets, cpu_seconds };
            let now = begin + Duration::from_secs(second);
            let decision = scaler.decide(&scaling, (wanted, 8), &load, now);
            assert_eq!(decision.forecast.is_some(), decision.wanted > wanted);
            if decision.wanted != wanted {
                changes.push((second, decision.wanted));
            }
            wanted = decision.wanted;
        }
        changes
    }

    #[test]
    fn a_replica_is_there_before_packets_wait_for_it() {
        // One replica is full at 100,000 a second, which is reached after 40 seconds.
        let rising = || (0..35).map(|second| 2_500 * second);
        let all = forecast(Some(10), 1, rising());
        let (second, wanted) = *all.first().expect("one more");
        assert!((20..30).contains(&second) && wanted == 2, "after {second} s");
        assert_eq!(forecast(None, 1, rising()), [], "nobody asked for it, and none waits");
        assert_eq!(forecast(Some(10), 1, std::iter::repeat_n(60_000, 120)), [], "no trend");
    }

    #[test]
    fn none_goes_that_is_needed_soon() {
        let rising = || (0..20).map(|second| 20_000 + 4_000 * second);
        assert_eq!(forecast(None, 2, rising()).first(), Some(&(10, 1)));
        let kept = forecast(Some(10), 2, rising());
        assert!(kept.iter().all(|(_, wanted)| *wanted >= 2), "{kept:?}");
    }
}
