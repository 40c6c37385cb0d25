//! What is right of a plan that ran, and what is not.

use super::{Measured, Prediction, Seen};

/// A thread that has so much of its time to do is full.
const FULL: f64 = 0.95;
/// One that others leave less of a processor is full whatever it does.
const HAD: f64 = 0.8;
/// By how much a measured rate may differ from the plan's besides what measurements differ by: what
/// it costs to hand packets on is not measured here, but taken from [`HOST`].
const ASSUMED: f64 = 0.05;
/// However far apart measurements are, no rate passes that is further off than this part of it: of
/// two functions of which one costs half more than the other, the wrong one would.
const TOLERANCE_MAX: f64 = 0.25;
/// The part of its time that a thread may use, beyond that, to go to sleep and wake up again, where
/// it has less to do than it can.
const WAKING: f64 = 0.15;

/// By how much a measured rate may differ from the plan's, as a part of it. Each of the two is
/// made of measurements that are as far from the truth as measurements of one thing in this run
/// were from each other, at worst in opposite directions.
fn tolerance(spread: f64) -> f64 {
    (ASSUMED + 2.0 * spread).min(TOLERANCE_MAX)
}

#[test]
fn no_spread_excuses_everything() {
    let percents = [0.0, 0.05, 0.1, 0.2, 3.0].map(|spread| (tolerance(spread) * 100.0).round());
    assert_eq!(percents, [5.0, 15.0, 25.0, 25.0, 25.0]);
}

/// Whether the task of which the plan says that it breaks first has most to do for a packet, and
/// packets are lost in front of it: whatever the speed at which the machine runs.
pub fn judge_break(
    name: &str,
    predicted: &Prediction,
    tasks: [usize; 2],
    runs: &[(f64, Seen)],
) -> Result<(), String> {
    let (first, other) = (tasks[predicted.first], tasks[1 - predicted.first]);
    for (load, seen) in runs {
        let [own, others] = [first, other].map(|task| seen.cost(task));
        let Seen { due, made, done, .. } = seen;
        println!(
            "  at {load:.2}: {own:.0} and {others:.0} ns a packet; {due:.0} due, {made:.0} made, \
             {done:.0} done"
        );
        let is_lossless = lost(predicted, seen) < due * 0.05;
        let problem = match (others >= own, is_lossless) {
            (true, _) => "it has less to do",
            (_, true) => "nothing is lost in front of it",
            _ => continue,
        };
        return Err(format!("{name} at {load}: {problem}: {seen:?}"));
    }
    Ok(())
}

/// Packets lost in front of the task that breaks first: where it is behind a queue, that overflows;
/// where it is in front, packets come late.
fn lost(predicted: &Prediction, seen: &Seen) -> f64 {
    if predicted.first == 1 { seen.made - seen.done } else { seen.due - seen.made }
}

/// Whether what the plan says breaks first does, at the rate that it says. `tasks`: whose times are
/// those of the plan's first and second task; `spread`: of what was measured alone.
pub fn judge(
    name: &str,
    predicted: &Prediction,
    tasks: [usize; 2],
    runs: &[(f64, Seen)],
    spread: f64,
) -> Result<(), String> {
    let (first, other) = (tasks[predicted.first], tasks[1 - predicted.first]);
    let over = runs.iter().filter(|(load, _)| *load > 1.0);
    let full = Measured::of(over.map(|(_, seen)| seen.cost(first)).collect());
    let tolerance = tolerance(spread.max(full.spread));
    for (load, seen) in runs {
        let [own, others] = [first, other].map(|task| seen.share(task));
        let Seen { due, made, done, .. } = seen;
        println!(
            "  at {load:.2}: {own:.2} and {others:.2} of their time, of which {:.2} and {:.2} was \
             there; {due:.0} due, {made:.0} made, {done:.0} done; {:.0}/s",
            seen.had(first),
            seen.had(other),
            seen.rate(first)
        );
        let problem = if *load > 1.0 {
            overloaded(predicted, seen, (own, others), seen.had(other))
        } else {
            // Of less time the same work is a larger part. When a task waits most of the time, the
            // share is a small number by a small number, and says nothing.
            let expected = (load / seen.had(first)).min(1.0);
            let is_off = (own - expected).abs() > tolerance + WAKING;
            (seen.had(first) > HAD && is_off).then_some("not as full as it is to be")
        };
        // What a function that is seldom woken costs is mostly its wake-ups: only where the first
        // is full, work is all that costs are made of.
        let is_lighter = *load > 1.0 && seen.cost(other) >= seen.cost(first);
        let problem = problem.or(is_lighter.then_some("it has less to do"));
        if let Some(problem) = problem {
            return Err(format!("{name} at {load}: {problem}: {seen:?}"));
        }
    }
    let over = runs.iter().filter(|(load, _)| *load > 1.0);
    let ratios: Vec<f64> = over.map(|(_, seen)| seen.rate(first) / predicted.rate).collect();
    let ratio = ratios.iter().sum::<f64>() / ratios.len() as f64;
    println!(
        "  it breaks at {ratio:.3} of the rate that was told; {tolerance:.3} more or less is right"
    );
    match (ratio - 1.0).abs() <= tolerance {
        true => Ok(()),
        false => Err(format!("{name}: it breaks at {ratio:.3} of the rate that was told")),
    }
}

/// What is wrong where more is offered than the plan says can be: `shares` of the one that is to be
/// full and of the other, which `had` so much of a processor.
fn overloaded(
    predicted: &Prediction,
    seen: &Seen,
    (own, others): (f64, f64),
    had: f64,
) -> Option<&'static str> {
    if predicted.first == 1 && had <= HAD {
        // Who makes packets had too little of a processor to make so many. At which rate the first
        // is full is compared in any case.
        return None;
    }
    if own < FULL {
        return Some("not full");
    }
    if had > HAD && others >= own {
        return Some("the other one is as full");
    }
    (lost(predicted, seen) < seen.due * 0.05).then_some("nothing is lost in front of it")
}
