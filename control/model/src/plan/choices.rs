//! Where a task may go, without what differs in nothing from what was tried.

use super::problem::Problem;
use super::usage::{Task, Usage};

/// Whether two hosts differ in nothing that a chain could see.
pub(super) fn alike(problem: &Problem, one: usize, other: usize) -> bool {
    let (a, b) = (&problem.hosts[one], &problem.hosts[other]);
    let pinned = |host| problem.demands.iter().any(|it| it.pinned == Some(host));
    a.hardware == b.hardware
        && (a.cores, a.memory) == (b.cores, b.memory)
        && !pinned(one)
        && !pinned(other)
}

/// Cores for a task, not below `lowest`, beside the tasks of its host: those in use, and of each
/// socket the first that is not; of sockets that nobody uses, and which are as large, only the
/// first.
pub(super) fn cores(
    (problem, host): (&Problem, usize),
    (tasks, usage): (&[Task], &Usage),
    (task, lowest): (&Task, usize),
    fullest_first: bool,
) -> Vec<usize> {
    let machine = &problem.hosts[host];
    let mut cores: Vec<usize> = Vec::new();
    let mut fresh: Vec<usize> = Vec::new();
    let mut sizes_seen = Vec::new();
    for socket in 0..machine.sockets() {
        let from = socket * machine.cores_of_socket;
        let to = (from + machine.cores_of_socket).min(machine.cores);
        let used = |core: &usize| usage.tasks[*core] > 0;
        cores.extend((from..to).filter(used));
        let unused = (from..to).find(|core| !used(core));
        let untouched = !(from..to).any(|core| used(&core));
        let twin = untouched && sizes_seen.contains(&(to - from));
        if untouched {
            sizes_seen.push(to - from);
        }
        fresh.extend(unused.filter(|_| !twin));
    }
    // Where the caches are emptier first.
    let reached = |core: &usize| usage.working_sets[machine.socket(*core)];
    fresh.sort_by(|a, b| reached(a).total_cmp(&reached(b)));
    let load = |core: &usize| usage.loads[*core];
    cores.sort_by(|a, b| load(a).total_cmp(&load(b)));
    if fullest_first {
        cores.reverse();
    }
    let before = if fullest_first { cores.len() } else { 0 };
    cores.splice(before..before, fresh);
    cores.retain(|core| *core >= lowest && allowed(problem, host, tasks, task, *core));
    cores
}

/// Whether a task may be on a core beside the other tasks of its host.
pub(super) fn allowed(
    problem: &Problem,
    host: usize,
    tasks: &[Task],
    task: &Task,
    core: usize,
) -> bool {
    let chain = &problem.demands[task.chain].chain;
    let machine = &problem.hosts[host];
    tasks.iter().all(|other| {
        if other.chain == task.chain {
            chain.cross_sockets || machine.socket(other.core) == machine.socket(core)
        } else {
            let shares = chain.share_core && problem.demands[other.chain].chain.share_core;
            other.core != core || shares
        }
    })
}
