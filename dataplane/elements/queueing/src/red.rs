//! RED: drops before the queue is full.

use std::any::Any;

use thruway_element::{
    Arg, ArgErrors, Args, Arguments, Changes, Cx, Element, Entry, FromArg, HandlerError, Handlers,
    HotSwap, Operation, Replicas, Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::Batch;

use thruway_elements_support::ewma::fixed_point;
use thruway_elements_support::random::{self, Probability, Random, SEED, seed_of};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Red>(Spec {
    name: "RED",
    topic: Topic::Queueing,
    summary: "drops packets at random, the more the longer the queue is",
    docs: "Random early detection (Floyd and Jacobson, \"Random Early Detection Gateways for \
           Congestion Avoidance\", 1993). It keeps a moving average of the number of packets \
           in the nearest queues: those downstream or, where packets are pulled through it, \
           those upstream; or those that QUEUES names. While the average is at most \
           MIN_THRESH all packets pass; from there to MAX_THRESH a packet is marked with a \
           probability that grows to MAX_P; beyond that, up to twice MAX_THRESH, it grows to 1 \
           (gentle RED), or is 1 where GENTLE is false. Marked packets leave by output 1, or \
           are dropped where there is none.\n\
           The weight of a new length in the average is 2^-STABILITY; while the queues are \
           empty the average fades with time, as if a packet came each millisecond.",
    example: "InfiniteSource -> RED(5, 50, 0.02) -> Queue(200) -> Unqueue -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    drops: Marked::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Random.once(), Operation::Visit.once()],
    replicas: Replicas::Apart(
        "each averages the length of the queues, which they share, as it sees it, and spaces \
         its own drops",
    ),
    ..Spec::DEFAULT
})
.with_hot_swap::<Red>();

reasons! {
    /// Why a packet does not pass.
    enum Marked {
        Early = "early": "the queues are long on average",
    }
}

/// Bits of fraction in the average and the thresholds.
const SCALE: u32 = 10;
/// Bits of fraction in probabilities.
const P_SCALE: u32 = 16;
/// Longest queue, in packets, that is reckoned with.
const LENGTH_MAX: u64 = 1 << 30;
/// With so many bits the weight of the present is as small as the average can show.
const STABILITY_MAX: u32 = 20;
/// While the queues are empty, the average fades as if it had been updated so often, nanoseconds.
const FADING: i64 = 1_000_000;
/// After so many of these there is nothing left of it, as in Click.
const FORGOTTEN: i64 = 100;

/// The average length of the queues, in packets times 2^`SCALE`.
#[derive(Debug, Clone)]
struct Average {
    scaled: u64,
    stability: u32,
    /// When it last was found that the queues are empty; `None` when they were not.
    empty: Option<i64>,
}

impl Average {
    fn observe(&mut self, len: u64) {
        let new = len.min(LENGTH_MAX) << SCALE;
        // The half unit makes up for rounding down.
        let half = if self.stability == 0 { 0 } else { 1 << (self.stability - 1) };
        let step = (new as i64 - self.scaled as i64 + half) >> self.stability;
        self.scaled = self.scaled.saturating_add_signed(step);
    }

    fn update(&mut self, now: i64, len: u64) {
        if len > 0 {
            self.empty = None;
            return self.observe(len);
        }
        let passed = self.empty.map_or(1, |since| now.saturating_sub(since) / FADING);
        if passed >= FORGOTTEN {
            self.scaled = 0;
        } else {
            (0..passed).for_each(|_| self.observe(0));
        }
        // The rest of a period counts the next time.
        self.empty = match self.empty {
            Some(since) if passed < FORGOTTEN => Some(since.saturating_add(passed * FADING)),
            _ => Some(now),
        };
    }
}

/// Which probability belongs to which average.
#[derive(Debug, Clone, Copy)]
struct Curve {
    min: u64,
    max: u64,
    /// Of 2^`P_SCALE`.
    max_p: u64,
    gentle: bool,
}

impl Curve {
    /// The probability of marking, of 2^`P_SCALE`.
    fn probability(&self, scaled: u64) -> u64 {
        let (one, min, max) = (1 << P_SCALE, self.min << SCALE, self.max << SCALE);
        match scaled {
            _ if scaled <= min => 0,
            _ if scaled <= max => self.max_p * (scaled - min) / (max - min),
            _ if self.gentle && scaled <= 2 * max => {
                self.max_p + (one - self.max_p) * (scaled - max) / max
            }
            _ => one,
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            _ if self.max > LENGTH_MAX => Err(format!("MAX_THRESH is at most {LENGTH_MAX}")),
            _ if self.min > self.max => Err("MIN_THRESH must not exceed MAX_THRESH".into()),
            _ => Ok(()),
        }
    }
}

/// Decides, so that the packets between two that are marked are evenly many.
struct Marker {
    curve: Curve,
    average: Average,
    random: Random,
    /// Packets since the last that was marked; `None` while none is to be.
    count: Option<u64>,
    /// Of 2^`P_SCALE`: when the next is marked.
    luck: u64,
}

impl Marker {
    fn new(args: &Args<'_>, curve: Curve, stability: u32) -> Result<Marker, ArgErrors> {
        curve.check().map_err(ArgErrors::whole)?;
        let average = Average { scaled: 0, stability, empty: None };
        let random = random::of_element(args, seed_of(args)?);
        Ok(Marker { curve, average, random, count: None, luck: 0 })
    }

    fn marks(&mut self, now: i64, len: u64) -> bool {
        self.average.update(now, len);
        let p = self.curve.probability(self.average.scaled);
        if p == 0 || p == 1 << P_SCALE {
            self.count = None;
            return p > 0;
        }
        let count = self.count.map_or(0, |count| count + 1);
        let marks = count > 0 && count >= self.luck / p;
        if marks || count == 0 {
            self.luck = self.random.below(1 << P_SCALE);
        }
        self.count = Some(if marks { 0 } else { count });
        marks
    }
}

#[derive(Arguments, Handlers)]
#[handler(
    both, name = "min_thresh", "average length up to which all packets pass",
    get = self.marker.curve.min,
    write = self.change((name, value), |curve, n: u32| curve.min = n.into())
)]
#[handler(
    both, name = "max_thresh", "average length at which MAX_P is reached",
    get = self.marker.curve.max,
    write = self.change((name, value), |curve, n: u32| curve.max = n.into())
)]
#[handler(
    both, name = "max_p", "probability of marking at MAX_THRESH",
    get = fixed_point(self.marker.curve.max_p, P_SCALE),
    write = self.change((name, value), |curve, p| curve.max_p = scaled_p(p))
)]
#[handler(sum, field = drops, "packets marked")]
#[handler(read, name = "queues", "the queues it watches, a line each", get = self.names(cx))]
#[handler(read, name = "avg_queue_size", "average length of the queues", get = self.average())]
#[handler(
    read, name = "stats", "present length, average length and drops, a line each",
    get = self.stats(cx)
)]
struct Red {
    #[arg(
        required, name = "MIN_THRESH", value = u32, "average length up to which all packets pass"
    )]
    #[arg(required, name = "MAX_THRESH", value = u32, "average length at which MAX_P is reached")]
    #[arg(
        required, name = "MAX_P", value = Probability,
        "probability of marking at MAX_THRESH, 0 to 1"
    )]
    /// The elements of QUEUES.
    #[arg(like = QUEUES)]
    #[new(names_of(args).unwrap_or_default())]
    named: Vec<String>,
    #[arg(
        keyword, name = "STABILITY", value = u32, or = "4", range = 0..=STABILITY_MAX,
        "weight of the present: 2^-STABILITY"
    )]
    #[arg(
        keyword, name = "GENTLE", value = bool, or = "true",
        "whether the probability grows on beyond MAX_THRESH"
    )]
    #[arg(like = SEED)]
    #[new({
        let (min, max, max_p) = (min_thresh.into(), max_thresh.into(), scaled_p(max_p));
        Marker::new(args, Curve { min, max, max_p, gentle }, stability)?
    })]
    marker: Marker,
    queues: Vec<u32>,
    drops: u64,
}

fn scaled_p(p: Probability) -> u64 {
    (p.value() * f64::from(1u32 << P_SCALE)).round() as u64
}

/// Argument QUEUES.
pub(super) const QUEUES: Arg =
    Arg::keyword("QUEUES", Ty::Any, "names of the queues to watch, with blanks between");

/// The elements of QUEUES, if given.
pub(super) fn names_of(args: &Args<'_>) -> Option<Vec<String>> {
    args.text(QUEUES.name).map(|text| text.split_whitespace().map(str::to_owned).collect())
}

/// The elements of these names, which must store packets.
pub(super) fn find_stores(cx: &mut Cx<'_>, names: &[String]) -> Result<Vec<u32>, String> {
    let node = cx.node();
    let mut found = Vec::new();
    for name in names {
        let Some(store) = cx.find(node, name) else {
            return Err(format!("QUEUES: no element named '{name}'"));
        };
        if cx.neighbours().storage(store).is_none() {
            return Err(format!(
                "QUEUES: '{name}' stores no packets (in this thread); name a Queue"
            ));
        }
        found.push(store);
    }
    Ok(found)
}

impl Red {
    /// Packets in the queues.
    fn queued(&self, cx: &Cx<'_>) -> u64 {
        let all = cx.neighbours();
        let stored = |node: &u32| all.storage(*node).map_or(0, |storage| storage.len as u64);
        self.queues.iter().map(stored).sum()
    }

    /// Their names, a line each.
    fn names(&self, cx: &mut Cx<'_>) -> String {
        let names = self.queues.iter().filter_map(|queue| cx.describe(*queue));
        names.map(|(name, _)| format!("{name}\n")).collect()
    }

    fn average(&self) -> String {
        fixed_point(self.marker.average.scaled, SCALE)
    }

    fn stats(&self, cx: &Cx<'_>) -> String {
        let (queued, average, drops) = (self.queued(cx), self.average(), self.drops);
        format!("{queued} current queue\n{average} avg queue\n{drops} drops\n")
    }

    fn change<T: FromArg>(
        &mut self,
        (name, value): (&str, &str),
        set: impl FnOnce(&mut Curve, T),
    ) -> Result<(), HandlerError> {
        let mut curve = self.marker.curve;
        set(&mut curve, handler_value(name, value)?);
        curve.check().map_err(HandlerError::refused)?;
        self.marker.curve = curve;
        Ok(())
    }
}

impl Element for Red {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.queues = match self.named.is_empty() {
            true => cx.neighbours().nearest_stores(),
            false => find_stores(cx, &self.named)?,
        };
        if self.queues.is_empty() {
            let side = if cx.is_pull_input(0) { "upstream" } else { "downstream" };
            return Err(format!("no Queue is {side}; name the Queues to watch in QUEUES"));
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (now, pulled) = (cx.now(), cx.is_pull_input(0));
        // Each packet is judged by the length that the queues have when packets go one by one:
        // those of this batch that passed are in, or those behind it are not out yet.
        let mut len = self.queued(cx) + if pulled { batch.len() as u64 } else { 0 };
        cx.filter(batch, |_| {
            len -= u64::from(pulled);
            if self.marker.marks(now, len) {
                self.drops += 1;
                return Verdict::reject(1, Marked::Early);
            }
            len += u64::from(!pulled);
            Verdict::Pass
        });
    }
}

impl HotSwap for Red {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.marker.average.clone()))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(average) = state.downcast::<Average>() {
            self.marker.average.scaled = average.scaled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(gentle: bool) -> Curve {
        Curve { min: 10, max: 30, max_p: 1 << (P_SCALE - 2), gentle }
    }

    #[test]
    fn probabilities_follow_the_curve() {
        let p = |curve: Curve, len: u64| {
            curve.probability(len << SCALE) as f64 / f64::from(1u32 << P_SCALE)
        };
        for gentle in [true, false] {
            for (len, wanted) in [(0, 0.0), (10, 0.0), (20, 0.125), (30, 0.25), (61, 1.0)] {
                assert_eq!(p(curve(gentle), len), wanted, "{len}");
            }
        }
        assert_eq!((p(curve(true), 45), p(curve(false), 45)), (0.625, 1.0));
        let step = Curve { min: 5, max: 5, max_p: 0, gentle: false };
        assert_eq!((p(step, 5), p(step, 6)), (0.0, 1.0));
        assert!(Curve { min: 6, ..step }.check().is_err());
    }

    #[test]
    fn averages_move_and_fade() {
        let mut average = Average { scaled: 0, stability: 2, empty: None };
        average.update(0, 8);
        assert_eq!(average.scaled, 2 << SCALE);
        average.update(0, 8);
        assert_eq!(average.scaled, 3584);
        average.update(0, 0);
        assert_eq!(average.scaled, 2688);
        // Half a millisecond twice is one.
        average.update(FADING / 2, 0);
        assert_eq!(average.scaled, 2688);
        average.update(FADING, 0);
        assert_eq!(average.scaled, 2016);
        average.update(200 * FADING, 0);
        assert_eq!(average.scaled, 0);
        let mut present = Average { scaled: 9, stability: 0, empty: None };
        present.update(0, 7);
        assert_eq!(present.scaled, 7 << SCALE);
    }

    proptest! {
        /// At a steady length as many are marked as the distances between them say, which are
        /// drawn evenly from 0 to 1/p and are at least 1.
        #[test]
        fn as_many_are_marked(seed: u64, len in 12u64..30) {
            let mut marker = Marker {
                curve: curve(true),
                average: Average { scaled: 0, stability: 0, empty: None },
                random: Random::from_seed(seed),
                count: None,
                luck: 0,
            };
            let marked = (0..20_000).filter(|_| marker.marks(0, len)).count() as f64;
            let p = curve(true).probability(len << SCALE);
            let total: u64 = (0..1u64 << P_SCALE).map(|luck| (luck / p).max(1)).sum();
            let expected = 20_000.0 * f64::from(1u32 << P_SCALE) / total as f64;
            prop_assert!((marked - expected).abs() < expected * 0.15, "{marked} {expected}");
        }

        #[test]
        fn the_average_stays_between(stability in 0..=STABILITY_MAX,
                                     lens in prop::collection::vec(1u64..5_000, 1..50)) {
            let mut average = Average { scaled: 0, stability, empty: None };
            let most = *lens.iter().max().unwrap();
            for len in lens {
                average.update(0, len);
                prop_assert!(average.scaled <= most << SCALE);
            }
        }
    }
}
