//! Evens out a placement: moves tasks off the fullest core.

use super::choices::allowed;
use super::problem::Problem;
use super::usage::{Placement, SLACK, Usage};

/// Most moves.
const MOVES_MAX: usize = 50;
/// Cores, the emptiest ones, that a task may be moved to.
const CORES_MAX: usize = 4;

/// Moves tasks of the fullest core of each host to other cores that are used, as long as its
/// highest load becomes less.
pub(super) fn balance(problem: &Problem, placement: &mut Placement) {
    for host in 0..problem.hosts.len() {
        let mut moves = 0;
        while moves < MOVES_MAX && relieve(problem, placement, host) {
            moves += 1;
        }
    }
}

/// Makes the best single move; false if none is better than staying.
fn relieve(problem: &Problem, placement: &mut Placement, host: usize) -> bool {
    let tasks = &mut placement.hosts[host];
    let now = Usage::of(problem, host, tasks);
    let weight = |usage: &Usage| {
        let squares: f64 = usage.loads.iter().map(|load| load * load).sum();
        (usage.load_most(), squares)
    };
    let before = weight(&now);
    let fullest = (0..now.loads.len()).max_by(|a, b| now.loads[*a].total_cmp(&now.loads[*b]));
    let mut others: Vec<usize> = (0..now.loads.len()).filter(|core| now.tasks[*core] > 0).collect();
    others.sort_by(|a, b| now.loads[*a].total_cmp(&now.loads[*b]));
    others.truncate(CORES_MAX);
    let mut best: Option<((f64, f64), usize, usize)> = None;
    for at in 0..tasks.len() {
        let home = tasks[at].core;
        if Some(home) != fullest {
            continue;
        }
        for core in others.iter().copied().filter(|core| *core != home) {
            let mut rest = tasks.clone();
            let task = rest.remove(at);
            if !allowed(problem, host, &rest, &task, core) {
                continue;
            }
            tasks[at].core = core;
            let usage = Usage::of(problem, host, tasks);
            let after = weight(&usage);
            let less = after.0 < before.0 - SLACK
                || (after.0 < before.0 + SLACK && after.1 < before.1 - SLACK);
            let better = best.is_none_or(|(best, ..)| after < best);
            if less && better && usage.fits(problem, host) {
                best = Some((after, at, core));
            }
            tasks[at].core = home;
        }
    }
    let Some((_, at, core)) = best else { return false };
    tasks[at].core = core;
    true
}
