//! The ratios that we want to reach, each measured turn by turn with what it is compared to.

use super::bounds::Bounds;
use super::cell::{Cell, Result as Measured};
use super::drive::Shape;
use super::duty::{Transport, Wait};
use super::figures::{cell, ring_cell};
use super::options::Options;
use super::source::Sources;
use super::workers::Cores;
use crate::row::median;

/// Chains on which the exchange is compared to a pair of rings and a copy.
const CHAINS: [usize; 5] = [2, 3, 4, 8, 10];

/// What is wanted of a comparison or a value.
struct Goal {
    name: String,
    own: Cell,
    /// What it is compared to, and the ratio of rates to reach.
    against: Option<(Cell, f64)>,
    /// Packets per second to reach.
    rate: Option<f64>,
    /// Mean latency to stay below, milliseconds.
    latency_ms: Option<f64>,
}

impl Goal {
    fn ratio(name: String, own: Cell, other: Cell, ratio: f64) -> Goal {
        Goal { name, own, against: Some((other, ratio)), rate: None, latency_ms: None }
    }

    /// Lets Workers that would sleep at once look again before.
    fn be_hybrid(&mut self) {
        let other = self.against.as_mut().map(|(cell, _)| cell);
        for cell in std::iter::once(&mut self.own).chain(other) {
            if cell.choices.wait == Wait::Block {
                cell.choices.wait = Wait::Hybrid;
            }
        }
    }
}

fn goals(options: &Options) -> Vec<Goal> {
    let of = |transport, workers| cell(options, transport, workers);
    let mut goals: Vec<Goal> = CHAINS
        .into_iter()
        .map(|workers| {
            let name = format!("chain of {workers} to a pair of rings and a copy");
            Goal::ratio(name, of(Transport::Exchange, workers), of(Transport::Pair, workers), 1.4)
        })
        .collect();
    for (workers, ratio) in [(1, 0.9), (8, 20.0)] {
        let name = format!("chain of {workers} to zero copy and polling");
        let (own, other) = (of(Transport::Exchange, workers), of(Transport::Pointers, workers));
        goals.push(Goal::ratio(name, own, other, ratio));
    }
    for workers in [1, 4] {
        let own = of(Transport::Exchange, workers);
        let mut threads = own;
        threads.choices.is_process = false;
        let name = format!("chain of {workers}, processes to threads");
        goals.push(Goal::ratio(name, Cell { ..own }, threads, 0.97));
    }
    goals.push(Goal {
        name: "one Worker, round trip".to_owned(),
        own: of(Transport::Exchange, 1),
        against: None,
        rate: Some(30e6),
        latency_ms: None,
    });
    goals.push(Goal {
        name: "1000 chains, no packet lost, latency".to_owned(),
        own: ring_cell(options, 1000),
        against: None,
        rate: None,
        latency_ms: Some(4.0),
    });
    goals
}

/// Measures and prints every goal; false when one is missed.
///
/// # Errors
/// As [`Cell::measure`].
pub fn run(options: &Options, cores: &Cores, bounds: &Bounds) -> anyhow::Result<bool> {
    let mut sources = Sources::default();
    let mut is_met = true;
    outln!(
        "{:52} {:>9} {:>9} {:>17} {:>9}",
        "goal (64 B, real Workers)",
        "wanted",
        "got",
        "min..max",
        "Mpps"
    );
    let wanted =
        |goal: &Goal| options.workers.is_empty() || options.workers.contains(&goal.own.workers);
    for mut goal in goals(options).into_iter().filter(wanted) {
        // A Worker with a core of its own may poll for a while; on a shared core it would take the
        // processor from the others, and sleeps.
        if options.choices.wait.is_none() && goal.own.workers < cores.count() {
            goal.be_hybrid();
        }
        is_met &= one(&goal, options, cores, &mut sources)?;
    }
    out!("{}", bounds.text());
    Ok(is_met)
}

fn one(
    goal: &Goal,
    options: &Options,
    cores: &Cores,
    sources: &mut Sources,
) -> anyhow::Result<bool> {
    let (mut own, mut other): (Vec<Measured>, Vec<Measured>) = (Vec::new(), Vec::new());
    for _ in 0..options.repeat {
        let source = sources.of(goal.own.memory, goal.own.len);
        own.push(goal.own.measure(source, options.span(), cores)?);
        if let Some((cell, _)) = &goal.against {
            other.push(cell.measure(source, options.span(), cores)?);
        }
    }
    let mpps = median(own.iter().map(|measured| measured.outcome.rate() / 1e6));
    let pairs = own.iter().zip(&other);
    let ratios = pairs.map(|(own, other)| own.outcome.rate() / other.outcome.rate().max(1e-9));
    let (values, wanted, is_below) = match (&goal.against, goal.rate, goal.latency_ms) {
        (Some((_, ratio)), ..) => (ratios.collect::<Vec<_>>(), *ratio, false),
        (None, Some(rate), _) => {
            (own.iter().map(|m| m.outcome.rate() / 1e6).collect(), rate / 1e6, false)
        }
        (None, None, latency) => {
            let ms = own.iter().map(|m| m.outcome.latencies_ns.mean_ns() / 1e6).collect();
            (ms, latency.unwrap_or(f64::INFINITY), true)
        }
    };
    let got = median(values.iter().copied());
    let is_met = if is_below { got < wanted } else { got >= wanted };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let unit = match (is_below, goal.rate) {
        (true, _) => "ms",
        (false, Some(_)) => "Mpps",
        (false, None) => "x",
    };
    let shape = if goal.own.shape == Shape::Ring { " (lossless)" } else { "" };
    outln!(
        "{:52} {:>9} {:>9} {:>17} {mpps:>9.3} {}",
        format!("{}{shape}", goal.name),
        format!("{wanted}{unit}"),
        format!("{got:.3}"),
        format!("{low:.3}..{high:.3}"),
        if is_met { "met" } else { "missed" }
    );
    Ok(is_met)
}
