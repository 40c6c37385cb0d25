//! Rows for people and for programs, and goals.

use std::time::Duration;

use serde_json::json;

use super::options::Options;
use super::outcome::Results;
use crate::goal::Goal;
use crate::machine::Machine;
use crate::row::median;

/// All sessions may take so long, milliseconds.
const MOVE_MS: f64 = 1000.0;
/// The packets of nearly all may wait so long, milliseconds.
const PAUSE_MS: f64 = 1.0;
/// Points of the distribution of waits that are shown, percent.
const POINTS: [f64; 3] = [50.0, 99.0, 99.9];

/// The line above the results.
pub fn heading(machine: &Machine, options: &Options) -> String {
    format!(
        "bench moves: {} sessions, {} times, under {} packets/s; {machine}\n",
        options.sessions, options.moves, options.rate
    )
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
}

fn took(results: &Results) -> Vec<f64> {
    results.moves.iter().map(|moved| ms(moved.took)).collect()
}

fn latency(results: &Results) -> Vec<f64> {
    results.moves.iter().map(|moved| ms(moved.latency)).collect()
}

/// The times that so many percent of the parts' packets waited at most, milliseconds: the limits of
/// powers of two below which they are.
fn pauses(results: &Results) -> [f64; 3] {
    let all: u64 = results.pauses.iter().map(|(_, count)| count).sum();
    POINTS.map(|point| {
        let mut seen = 0;
        let limit = results.pauses.iter().find(|(_, count)| {
            seen += count;
            seen as f64 >= all as f64 * point / 100.0
        });
        limit.map_or(0.0, |(limit, _)| ms(Duration::from_nanos(*limit)))
    })
}

fn lost(results: &Results) -> u64 {
    results.made.saturating_sub(results.back)
}

/// The results, for people.
pub fn text(results: &Results) -> String {
    let Results { moved: [moved, asked], made, backwards, latency_before, .. } = results;
    let [half, most, nearly] = pauses(results);
    let list = |all: Vec<f64>| all.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
    format!(
        "moves, ms: {}\npause of a session, ms: 50 % below {half}, 99 % below {most}, 99.9 % below \
         {nearly}, longest {}\nlongest latency during each, ms: {} \
         (without a move {})\nsessions: {moved} of {asked} moved\npackets: {made} made, {} lost, \
         {backwards} out of order or without scratch\ndrops: {}\n",
        list(took(results)),
        ms(results.pause_max),
        list(latency(results)),
        ms(*latency_before),
        lost(results),
        results.drops
    )
}

/// All goals.
pub fn goals(results: &Results) -> Vec<Goal> {
    let [moved, asked] = results.moved;
    vec![
        Goal::most("move of all sessions, median, ms", median(took(results)), MOVE_MS),
        Goal::most("pause of 99 % of the sessions, ms", pauses(results)[1], PAUSE_MS),
        Goal::most("sessions that did not move", asked.abs_diff(moved) as f64, 0.0),
        Goal::most("packets lost", lost(results) as f64, 0.0),
        Goal::most("packets out of order or without scratch", results.backwards as f64, 0.0),
    ]
}

/// The row in JSON.
pub fn json(machine: &Machine, options: &Options, results: &Results) -> String {
    let all = json!({
        "bench": "moves", "version": env!("CARGO_PKG_VERSION"), "model": machine.model,
        "cores": machine.cores, "kernel": machine.kernel, "load": machine.load,
        "sessions": options.sessions, "rate_pps": options.rate,
        "move_ms": took(results), "pause_ms_below_p50_p99_p999": pauses(results),
        "pause_max_ms": ms(results.pause_max),
        "latency_max_ms": latency(results), "latency_max_ms_before": ms(results.latency_before),
        "moved_asked": results.moved, "packets_made": results.made, "packets_lost": lost(results),
        "packets_backwards": results.backwards, "drops": results.drops,
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal;
    use crate::moves::outcome::Move;

    fn missed(change: impl FnOnce(&mut Results)) -> Vec<String> {
        let moved = |took| Move { took: Duration::from_millis(took), latency: Duration::ZERO };
        let moves = vec![moved(600), moved(1500), moved(700)];
        let pauses = vec![(131_072, 60), (262_144, 40), (u64::MAX, 0)];
        let mut results = Results { moves, pauses, moved: [3, 3], ..Results::default() };
        (results.made, results.back) = (9, 9);
        change(&mut results);
        goal::missed(goals(&results))
    }

    #[test]
    fn goals_are_met_or_missed() {
        assert_eq!(missed(|_| ()), Vec::<&str>::new());
        let slow = missed(|all| all.moves[0].took = Duration::from_secs(2));
        assert_eq!(slow, ["move of all sessions, median, ms"]);
        let paused = missed(|all| all.pauses.push((2_097_152, 2)));
        assert_eq!(paused, ["pause of 99 % of the sessions, ms"]);
        assert_eq!(missed(|all| all.moved = [2, 3]), ["sessions that did not move"]);
        assert_eq!(missed(|all| all.back = 8), ["packets lost"]);
        let lost = missed(|all| all.backwards = 1);
        assert_eq!(lost, ["packets out of order or without scratch"]);
    }
}
