//! Into which tasks a chain can be cut: stages of a pipeline, replicas.

use super::problem::{Problem, WorkList};
use super::usage::SLACK;

/// How a chain is cut on a host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub replicas: u32,
    /// Functions of each task of a replica: from, to.
    pub blocks: Vec<(usize, usize)>,
}

impl Shape {
    pub fn tasks(&self) -> usize {
        self.replicas as usize * self.blocks.len()
    }
}

/// Number of in-process functions up to which every cut is tried.
const CUT_ALL_MAX: usize = 7;
/// Stages of a pipeline if not every cut is tried.
const STAGES_MAX: usize = 8;

/// Whether every cut of a chain is among its shapes.
pub(super) fn all_cuts(problem: &Problem, chain: usize, host: usize) -> bool {
    problem.demands[chain].on[host].in_process <= CUT_ALL_MAX
}

/// The shapes of a chain on a host of which no task alone is too much for a core; those with few
/// tasks first, of these the more even ones.
pub(super) fn shapes(problem: &Problem, chain: usize, at: usize) -> Vec<Shape> {
    let (demand, host) = (&problem.demands[chain], &problem.hosts[at]);
    let list = &demand.on[at];
    let replicas_max = if demand.parallel { host.cores as u32 } else { 1 };
    let stages_max = if host.hops.is_some() { host.cores.min(list.in_process) } else { 1 };
    let cuts = cuts(list, stages_max);
    let mut all = Vec::new();
    for replicas in 1..=replicas_max {
        let per_cycle = demand.rate_of_replica(replicas) / host.clock();
        for blocks in &cuts {
            let fits = |&(from, to): &(usize, usize)| {
                cycles(list, from, to) * per_cycle <= problem.load_max + SLACK
            };
            if blocks.iter().all(fits) {
                let heaviest = blocks.iter().map(|&(from, to)| cycles(list, from, to));
                let shape = Shape { replicas, blocks: blocks.clone() };
                all.push((heaviest.fold(0.0, f64::max) * per_cycle, shape));
            }
        }
    }
    all.sort_by(|(a, one), (b, other)| one.tasks().cmp(&other.tasks()).then(a.total_cmp(b)));
    all.into_iter().map(|(_, shape)| shape).collect()
}

fn cycles(list: &WorkList, from: usize, to: usize) -> f64 {
    list.functions[from..to].iter().map(|work| work.load.cycles).sum()
}

/// Cuts of the in-process functions into stages; each isolated function is a task.
fn cuts(list: &WorkList, stages_max: usize) -> Vec<Vec<(usize, usize)>> {
    let inside = list.in_process;
    let stages: Vec<Vec<(usize, usize)>> = if inside <= CUT_ALL_MAX {
        let masks = 0..1u32 << (inside - 1);
        let within = |mask: &u32| (mask.count_ones() as usize) < stages_max;
        masks.filter(within).map(|mask| cut_at(inside, |at| mask >> at & 1 == 1)).collect()
    } else {
        (1..=stages_max.min(STAGES_MAX)).map(|count| balanced(list, count)).collect()
    };
    let isolated = (inside..list.functions.len()).map(|at| (at, at + 1));
    stages.into_iter().map(|cut| cut.into_iter().chain(isolated.clone()).collect()).collect()
}

/// Blocks of `0..count`, with a cut behind each function that `ends` says.
fn cut_at(count: usize, ends: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut blocks = Vec::new();
    let mut from = 0;
    for at in 0..count {
        if at + 1 == count || ends(at) {
            blocks.push((from, at + 1));
            from = at + 1;
        }
    }
    blocks
}

/// At most this number of stages, with cycles as even as a greedy walk makes them.
fn balanced(list: &WorkList, stages: usize) -> Vec<(usize, usize)> {
    let share = cycles(list, 0, list.in_process) / stages as f64;
    let mut done = 1.0;
    let (mut sum, mut ends) = (0.0, vec![false; list.in_process]);
    for (at, end) in ends.iter_mut().enumerate() {
        let own = list.functions[at].load.cycles;
        // Cut where the mark lies nearer to the end of this function than to that of the next.
        let next = list.functions.get(at + 1).map_or(0.0, |work| work.load.cycles);
        sum += own;
        if done < stages as f64 && share * done - sum < next / 2.0 {
            *end = true;
            done += 1.0;
        }
    }
    cut_at(list.in_process, |at| ends[at])
}
