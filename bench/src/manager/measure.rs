//! Turns with and without scrapes.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::daemon::Daemon;
use super::options::Options;
use crate::child::wait_for;
use crate::latency::Latencies;

/// The chain that forwards packets.
const BUSY: &str = "busy";
/// Reads of the API between turns.
const READS: usize = 20;

/// What was measured.
#[derive(Debug, Default)]
pub struct Results {
    /// Answers to scrapes, and to reads of one chain and of the list of all.
    pub scrapes: Latencies,
    pub reads: Latencies,
    pub lists: Latencies,
    /// Bytes of a scrape.
    pub scrape_len: usize,
    /// Packets a second of the chain, in each round: without scrapes and with them.
    pub rates: Vec<[f64; 2]>,
}

/// Starts a manager with its chains, and measures.
pub fn measure(options: &Options) -> anyhow::Result<Results> {
    let mut daemon = Daemon::start()?;
    for number in 0..options.chains {
        let spec = json!({"configuration": "Idle -> Discard", "stopped": true});
        daemon.declare(&format!("idle-{number}"), &spec)?;
    }
    daemon.declare(BUSY, &json!({"configuration": chain(options.elements)}))?;
    wait_for("packets", || Ok(daemon.number(BUSY, "c1.count").is_ok_and(|count| count > 0.0)))?;
    let mut results = Results::default();
    let (mut scrapes, mut reads, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let bare = rate(&daemon, options, || Ok(()))?;
        let scraped = rate(&daemon, options, || {
            let (took, len) = daemon.time("/metrics")?;
            scrapes.push(ns(took));
            results.scrape_len = len;
            Ok(())
        })?;
        results.rates.push([bare, scraped]);
        for _ in 0..READS {
            reads.push(ns(daemon.time(&format!("/v1/chains/{BUSY}"))?.0));
            lists.push(ns(daemon.time("/v1/chains")?.0));
        }
    }
    results.scrapes = Latencies::new(scrapes, 1.0);
    results.reads = Latencies::new(reads, 1.0);
    results.lists = Latencies::new(lists, 1.0);
    Ok(results)
}

/// A source, Counters and a Discard: so many elements.
fn chain(elements: u32) -> String {
    let mut text = "InfiniteSource(LENGTH 60, BURST 32, LIMIT -1)".to_owned();
    for number in 1..elements.saturating_sub(1) {
        let _ = write!(text, " -> c{number} :: Counter");
    }
    text + " -> Discard;"
}

/// Packets a second during a turn, while `scrape` is called at its rate.
fn rate(
    daemon: &Daemon,
    options: &Options,
    mut scrape: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let length = Duration::from_millis(options.time.into());
    let each = Duration::from_secs(1) / options.scrapes;
    let (before, begin) = (daemon.number(BUSY, "c1.count")?, Instant::now());
    while begin.elapsed() < length {
        let next = Instant::now() + each;
        scrape()?;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let packets = daemon.number(BUSY, "c1.count")? - before;
    Ok(packets / begin.elapsed().as_secs_f64())
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_as_many_elements_as_asked() {
        assert_eq!(chain(3).matches("->").count(), 2);
        assert_eq!(chain(1000).matches("->").count(), 999);
        assert_eq!(chain(1000).matches("Counter").count(), 998);
    }
}
