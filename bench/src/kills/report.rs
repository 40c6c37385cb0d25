//! Rows for people and for programs, and goals.

use std::time::Duration;

use serde_json::json;

use super::options::Options;
use super::results::{Kill, Results};
use crate::goal::Goal;
use crate::latency::points_ms;
use crate::machine::Machine;

/// Half of all kills may take so long until a packet is answered, milliseconds.
const MEDIAN_MS: f64 = 2.0;
/// The longest may take so long, milliseconds.
const WORST_MS: f64 = 10.0;
/// Kills that are shown one by one, the slowest first.
const SLOWEST: usize = 5;

/// The line above the results.
pub fn heading(machine: &Machine, options: &Options) -> String {
    format!(
        "bench kills: {} kills, one every {} ms, under {} packets/s of {} sessions{}; {machine}\n",
        options.kills,
        options.pause,
        options.rate,
        options.sessions,
        options.nf.as_ref().map_or(String::new(), |more| format!(", {more}"))
    )
}

/// Of all kills, milliseconds.
fn points(kills: &[Kill], of: impl Fn(&Kill) -> Duration) -> [f64; 4] {
    points_ms(kills.iter().map(of))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What it was without what threads waited for a processor; with several of them waiting at once it
/// is less than it would have been.
fn own(kill: &Kill) -> Duration {
    kill.back.saturating_sub(kill.waited)
}

fn lost(results: &Results) -> (u64, u64) {
    let lost = || results.kills.iter().map(|kill| kill.lost);
    (lost().sum(), lost().max().unwrap_or(0))
}

/// The results, for people.
pub fn text(results: &Results) -> String {
    let line = |name: &str, all: [f64; 4]| {
        let [half, most, nearly, worst] = all;
        format!("{name:32} {half:8.2} {most:8.2} {nearly:8.2} {worst:8.2}\n")
    };
    let (all, most) = lost(results);
    let mut text =
        format!("{:32} {:>8} {:>8} {:>8} {:>8}\n", "ms", "50 %", "90 %", "99 %", "worst");
    text += &line("first answer after the kill", points(&results.kills, |kill| kill.back));
    text += &line("of that, waited for a processor", points(&results.kills, |kill| kill.waited));
    text += &line("without that", points(&results.kills, own));
    let mut slowest: Vec<&Kill> = results.kills.iter().collect();
    slowest.sort_by_key(|kill| std::cmp::Reverse(kill.back));
    let slowest = slowest.iter().take(SLOWEST);
    let slowest = slowest.map(|kill| format!("{:.2} ({:.2})", ms(kill.back), ms(kill.waited)));
    text += &format!("slowest (of that, waited): {}\n", slowest.collect::<Vec<_>>().join(", "));
    let Results { made, back, astray, forgotten, drops, sessions, slots, start_cpu, .. } = results;
    text += &format!(
        "packets: {made} made, {back} back; {all} lost in the slots of processes that were killed, {most} \
         at most ({slots} slots); {astray} lost otherwise or out of order\ndrops: {drops}\n\
         sessions: {} before, {} after, {forgotten} forgotten by the function\n\
         processor time of a process: {:.2} ms\n",
        sessions[0],
        sessions[1],
        ms(*start_cpu)
    );
    text
}

/// All goals.
pub fn goals(results: &Results) -> Vec<Goal> {
    let [half, _, _, worst] = points(&results.kills, |kill| kill.back);
    let (all, most) = lost(results);
    let unknown = results.made.saturating_sub(results.back + all).max(results.astray);
    let gone = results.sessions[0].abs_diff(results.sessions[1]) + results.forgotten;
    vec![
        Goal::most("median, ms", half, MEDIAN_MS),
        Goal::most("worst, ms", worst, WORST_MS),
        Goal::most("packets lost at a kill", most as f64, results.slots as f64),
        Goal::most("packets lost otherwise", unknown as f64, 0.0),
        Goal::most("sessions lost", gone as f64, 0.0),
    ]
}

/// The row in JSON.
pub fn json(machine: &Machine, options: &Options, results: &Results) -> String {
    let hundredth = |value: f64| (value * 100.0).round() / 100.0;
    let round = |points: [f64; 4]| points.map(hundredth);
    let (all, most) = lost(results);
    let all = json!({
        "bench": "kills", "version": env!("CARGO_PKG_VERSION"), "model": machine.model,
        "cores": machine.cores, "kernel": machine.kernel, "load": machine.load,
        "kills": options.kills, "pause_ms": options.pause, "rate_pps": options.rate,
        "nf": options.nf,
        "back_ms_p50_p90_p99_max": round(points(&results.kills, |kill| kill.back)),
        "waited_ms_p50_p90_p99_max": round(points(&results.kills, |kill| kill.waited)),
        "own_ms_p50_p90_p99_max": round(points(&results.kills, own)),
        "back_ms": results.kills.iter().map(|kill| hundredth(ms(kill.back))).collect::<Vec<_>>(),
        "packets_made": results.made, "packets_back": results.back,
        "lost_in_slots": all, "lost_in_slots_max": most, "slots": results.slots,
        "lost_otherwise": results.astray, "drops": results.drops,
        "sessions_before_after": results.sessions, "sessions_forgotten": results.forgotten,
        "start_cpu_ms": hundredth(ms(results.start_cpu)),
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal;

    fn kill(back_us: u64, waited_us: u64, lost: u64) -> Kill {
        let time = Duration::from_micros;
        Kill { back: time(back_us), waited: time(waited_us), lost }
    }

    fn good() -> Results {
        let kills = vec![kill(1000, 0, 3), kill(1500, 100, 0), kill(9000, 8000, 2)];
        let packets = Results { made: 105, back: 100, slots: 16, ..Results::default() };
        Results { kills, sessions: [7, 7], ..packets }
    }

    fn missed(change: impl FnOnce(&mut Results)) -> Vec<String> {
        let mut results = good();
        change(&mut results);
        goal::missed(goals(&results))
    }

    #[test]
    fn goals_are_met_or_missed() {
        assert_eq!(missed(|_| ()), Vec::<&str>::new());
        assert_eq!(missed(|all| all.kills[2] = kill(2500, 0, 2)), Vec::<&str>::new());
        let slow = missed(|all| all.kills = vec![kill(2500, 0, 3), kill(10_500, 0, 2)]);
        assert_eq!(slow, ["median, ms", "worst, ms"]);
        assert_eq!(missed(|all| all.made = 106), ["packets lost otherwise"]);
        assert_eq!(missed(|all| all.astray = 1), ["packets lost otherwise"]);
        assert_eq!(missed(|all| all.sessions = [7, 6]), ["sessions lost"]);
        assert_eq!(missed(|all| all.forgotten = 1), ["sessions lost"]);
        assert_eq!(missed(|all| all.slots = 2), ["packets lost at a kill"]);
    }

    #[test]
    fn what_was_waited_is_told_apart() {
        assert_eq!(points(&good().kills, own), [1.0, 1.4, 1.4, 1.4]);
    }
}
