//! Rows for people and for programs, and goals.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::options::Options;
use super::outcome::Taken;
use crate::goal::Goal;
use crate::latency::points_ms;
use crate::machine::Machine;

/// Half of all gaps may be so long, milliseconds, and the longest.
const GAP_MS: f64 = 100.0;
const WORST_MS: f64 = 1000.0;
/// Part of the connections that go on, at least.
const GOES_ON: f64 = 0.999;

/// The line above the results.
pub fn heading(machine: &Machine, options: &Options) -> String {
    let Options { repeats, connections, rate, after, commit, .. } = options;
    let commit = if *commit { ", output commit" } else { "" };
    format!(
        "bench takeover: {repeats} kills under {connections} TCP connections with {rate} requests/s, \
         taken over after {after} ms of silence{commit}; {machine}\n"
    )
}

fn points(all: &[Taken], of: impl Fn(&Taken) -> Duration) -> [f64; 4] {
    points_ms(all.iter().map(of))
}

/// Connections that went on, and all.
fn went_on(all: &[Taken]) -> [usize; 2] {
    let sum = |of: fn(&Taken) -> usize| all.iter().map(of).sum::<usize>();
    let (there, lost) = (sum(|taken| taken.connections), sum(|taken| taken.lost));
    [there - lost, there]
}

/// The results, for people.
pub fn text(all: &[Taken]) -> String {
    let line = |what: &str, [half, most, nearly, longest]: [f64; 4]| {
        format!(
            "{what:32} ms: p50 {half:.1}, p90 {most:.1}, p99 {nearly:.1}, longest {longest:.1}\n"
        )
    };
    let mut reasons: BTreeMap<&str, u32> = BTreeMap::new();
    for why in all.iter().filter_map(|taken| taken.why.as_deref()) {
        *reasons.entry(why).or_default() += 1;
    }
    let reasons = reasons.iter().map(|(why, count)| format!("; {count} times first: {why}"));
    let [on, there] = went_on(all);
    format!(
        "{}{}connections: {on} of {there} went on{}\n",
        line("until the backup serves", points(all, |taken| taken.detection)),
        line("gap of the traffic", points(all, |taken| taken.gap)),
        reasons.collect::<String>()
    )
}

/// All goals.
pub fn goals(all: &[Taken], commits: bool) -> Vec<Goal> {
    let [half, _, _, longest] = points(all, |taken| taken.gap);
    let [on, there] = went_on(all);
    let part = if commits { 1.0 } else { GOES_ON };
    vec![
        Goal::most("gap of the traffic, median, ms", half, GAP_MS),
        Goal::most("gap of the traffic, longest, ms", longest, WORST_MS),
        Goal::least("part of the connections that went on", on as f64 / there.max(1) as f64, part),
    ]
}

/// The row in JSON.
pub fn json(machine: &Machine, options: &Options, all: &[Taken]) -> String {
    let ms = |of: fn(&Taken) -> Duration| {
        let round = |time: Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
        all.iter().map(|taken| round(of(taken))).collect::<Vec<_>>()
    };
    let [on, there] = went_on(all);
    let all = json!({
        "bench": "takeover", "version": env!("CARGO_PKG_VERSION"), "model": machine.model,
        "cores": machine.cores, "kernel": machine.kernel, "load": machine.load,
        "connections": options.connections, "requests_per_s": options.rate,
        "after_ms": options.after, "output_commit": options.commit,
        "detection_ms_p50_p90_p99_max": points(all, |taken| taken.detection),
        "gap_ms_p50_p90_p99_max": points(all, |taken| taken.gap),
        "connections_all": there, "connections_that_went_on": on,
        "detection_ms": ms(|taken| taken.detection), "gap_ms": ms(|taken| taken.gap),
        "lost": all.iter().map(|taken| taken.lost).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal;

    #[test]
    fn goals_are_met_or_missed() {
        let taken = |gap: u64, lost| Taken {
            detection: Duration::from_millis(gap / 2),
            gap: Duration::from_millis(gap),
            connections: 1000,
            lost,
            why: None,
        };
        let missed = |all: &[Taken], commits| goal::missed(goals(all, commits)).len();
        assert_eq!(missed(&[taken(60, 0), taken(80, 2), taken(900, 0)], false), 0);
        assert_eq!(missed(&[taken(60, 0), taken(80, 2), taken(900, 0)], true), 1);
        assert_eq!(missed(&[taken(60, 4), taken(120, 0), taken(1200, 0)], false), 3);
    }
}
