//! Rows for people and for programs, and goals.

use serde_json::json;

use super::measure::Results;
use super::options::Options;
use crate::goal::Goal;
use crate::latency::Latencies;
use crate::machine::Machine;
use crate::row::median;

/// A scrape of a thousand elements, and a read, may take so long, milliseconds.
const SCRAPE_MS: f64 = 20.0;
const READ_MS: f64 = 10.0;

/// The line above the results.
pub fn heading(machine: &Machine, options: &Options) -> String {
    let Options { elements, chains, rounds, time, scrapes, .. } = options;
    format!(
        "bench manager: a chain of {elements} elements and {chains} that do not run; {rounds} turns of \
         {time} ms with {scrapes} scrapes/s and without; {machine}\n"
    )
}

fn ms(latencies: &Latencies, percent: f64) -> f64 {
    latencies.percentile_ns(percent) / 1e6
}

/// Rates with scrapes over those without, round by round.
fn ratios(results: &Results) -> Vec<f64> {
    results.rates.iter().map(|[bare, scraped]| scraped / bare).collect()
}

/// Half the range of the rates without scrapes, as a part of their median: what is not seen.
fn noise(results: &Results) -> f64 {
    let bare: Vec<f64> = results.rates.iter().map(|[bare, _]| *bare).collect();
    let (least, most) = bare
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
    (most - least) / 2.0 / median(bare)
}

/// The results, for people.
pub fn text(results: &Results) -> String {
    let line = |what: &str, latencies: &Latencies| {
        format!(
            "{what:28} {:7} times, ms: p50 {:.2}, p99 {:.2}, longest {:.2}\n",
            latencies.count(),
            ms(latencies, 50.0),
            ms(latencies, 99.0),
            ms(latencies, 100.0)
        )
    };
    let rate = |at: usize| median(results.rates.iter().map(|rates| rates[at])) / 1e6;
    format!(
        "{}{}{}packets of the chain: {:.3} Mpps without scrapes, {:.3} with, ratio {:.3} (what is below \
         {:.3} is noise); a scrape has {} bytes\n",
        line("GET /metrics", &results.scrapes),
        line("GET /v1/chains/NAME", &results.reads),
        line("GET /v1/chains", &results.lists),
        rate(0),
        rate(1),
        median(ratios(results)),
        noise(results),
        results.scrape_len
    )
}

/// All goals.
pub fn goals(results: &Results) -> Vec<Goal> {
    vec![
        Goal::most("scrape, p99, ms", ms(&results.scrapes, 99.0), SCRAPE_MS),
        Goal::most("read of a chain, p99, ms", ms(&results.reads, 99.0), READ_MS),
        Goal::most("list of all chains, p99, ms", ms(&results.lists, 99.0), READ_MS),
        Goal::least(
            "rate with scrapes over rate without",
            median(ratios(results)),
            1.0 - noise(results),
        ),
    ]
}

/// The row in JSON.
pub fn json(machine: &Machine, options: &Options, results: &Results) -> String {
    let points = |all: &Latencies| [50.0, 99.0, 100.0].map(|percent| ms(all, percent));
    let all = json!({
        "bench": "manager", "version": env!("CARGO_PKG_VERSION"), "model": machine.model,
        "cores": machine.cores, "kernel": machine.kernel, "load": machine.load,
        "elements": options.elements, "chains": options.chains, "scrapes_per_s": options.scrapes,
        "scrape_ms_p50_p99_max": points(&results.scrapes),
        "read_ms_p50_p99_max": points(&results.reads),
        "list_ms_p50_p99_max": points(&results.lists),
        "scrape_bytes": results.scrape_len,
        "mpps_without_with": results.rates.iter().map(|rates| rates.map(|rate| rate / 1e6))
            .collect::<Vec<_>>(),
        "ratio": median(ratios(results)), "noise": noise(results),
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal;

    #[test]
    fn a_rate_that_scrapes_lower_is_a_missed_goal() {
        let quick = Latencies::new(vec![1_000_000; 10], 1.0);
        let rates = |scraped: f64| Results {
            scrapes: quick.clone(),
            reads: quick.clone(),
            lists: quick.clone(),
            rates: vec![[100.0, scraped], [98.0, scraped], [102.0, scraped]],
            ..Results::default()
        };
        let missed = |results: &Results| goal::missed(goals(results));
        assert_eq!(missed(&rates(99.0)), Vec::<String>::new());
        assert_eq!(missed(&rates(90.0)), ["rate with scrapes over rate without"]);
        let slow = Results { scrapes: Latencies::new(vec![30_000_000], 1.0), ..rates(100.0) };
        assert_eq!(missed(&slow), ["scrape, p99, ms"]);
    }
}
