//! Finds a placement: branch and bound over chains, their shapes and the cores of their tasks.
//!
//! First the fewest hosts, and on these the fewest cores; then, with so many, the highest least
//! headroom. It begins with a placement that was put together without looking back (`construct`),
//! if that finds one. Within a budget of steps the best placement is found and proved; beyond it
//! the best that was met is taken, with tasks moved off its fullest cores.

use super::balance::balance;
use super::choices::{alike, cores};
use super::construct::construct;
use super::problem::Problem;
use super::shapes::{Shape, all_cuts, shapes};
use super::usage::{Placement, SLACK, Task, Usage};

/// How good a placement is: less is better, the first that differs decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Score {
    pub hosts: usize,
    pub cores: usize,
    /// The highest load of a core.
    pub load: f64,
}

/// What a search came to.
#[derive(Debug, Clone)]
pub(super) struct Solved {
    /// A placement, if one was found.
    pub best: Option<(Score, Placement)>,
    /// Whether it is known that there is no better one, or none.
    pub proved: bool,
}

/// How long to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Tasks that may be put somewhere, each times those on its host, in each of the two passes.
    pub steps: u64,
    /// Whether any placement will do.
    pub any: bool,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pass {
    /// Few hosts and cores.
    Fewest,
    /// A high least headroom with no more hosts and cores than the best so far.
    Headroom,
}

struct Search<'a> {
    problem: &'a Problem,
    effort: Effort,
    pass: Pass,
    /// The chains, largest first.
    order: Vec<usize>,
    /// Cores' worth of work of the chains from each place of the order on: of those that share.
    shared_left: Vec<f64>,
    /// Cores that the others need for themselves.
    alone_left: Vec<usize>,
    /// By chain, then by host.
    shapes: Vec<Vec<Vec<Shape>>>,
    placement: Placement,
    usage: Vec<Usage>,
    steps: u64,
    best: Option<(Score, Placement)>,
    done: bool,
}

/// Finds a placement.
pub(super) fn solve(problem: &Problem, effort: Effort) -> Solved {
    let mut search = Search::new(problem, effort);
    let first = construct(problem, &search.shapes, &search.order);
    search.best = first.map(|placement| (Score::of(problem, &placement), placement));
    if effort.any && search.best.is_some() {
        return Solved { best: search.best, proved: true };
    }
    search.chain(0);
    let mut proved = !search.out_of_steps() && search.all_cuts();
    if search.best.is_some() && !effort.any {
        (search.pass, search.steps, search.done) = (Pass::Headroom, 0, false);
        search.chain(0);
        proved &= !search.out_of_steps();
        if !proved && let Some((score, placement)) = &mut search.best {
            balance(problem, placement);
            *score = Score::of(problem, placement);
        }
    }
    Solved { best: search.best, proved }
}

impl Score {
    /// Of a placement.
    pub fn of(problem: &Problem, placement: &Placement) -> Score {
        let tasks = placement.hosts.iter().enumerate();
        let usage: Vec<Usage> = tasks.map(|(at, tasks)| Usage::of(problem, at, tasks)).collect();
        Score::of_usage(&usage)
    }

    fn of_usage(usage: &[Usage]) -> Score {
        let cores = usage.iter().map(Usage::cores_used);
        Score {
            hosts: cores.clone().filter(|cores| *cores > 0).count(),
            cores: cores.sum(),
            load: usage.iter().map(Usage::load_most).fold(0.0, f64::max),
        }
    }

    /// Whether this is better than another, and not by rounding alone.
    pub fn beats(&self, other: &Score) -> bool {
        let counts = (self.hosts, self.cores).cmp(&(other.hosts, other.cores));
        counts.is_lt() || (counts.is_eq() && self.load < other.load - SLACK)
    }
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, effort: Effort) -> Search<'a> {
        let chains = problem.demands.len();
        let mut order: Vec<usize> = (0..chains).collect();
        order.sort_by(|a, b| problem.least_cores(*b).total_cmp(&problem.least_cores(*a)));
        let mut shared_left = vec![0.0; chains + 1];
        let mut alone_left = vec![0; chains + 1];
        for (at, chain) in order.iter().enumerate().rev() {
            let work = problem.least_cores(*chain);
            let shares = problem.demands[*chain].chain.share_core;
            let alone = (work / problem.load_max - SLACK).ceil().max(1.0) as usize;
            shared_left[at] = shared_left[at + 1] + if shares { work } else { 0.0 };
            alone_left[at] = alone_left[at + 1] + if shares { 0 } else { alone };
        }
        let hosts = 0..problem.hosts.len();
        let of = |chain: usize| hosts.clone().map(|host| shapes(problem, chain, host)).collect();
        let empty = Placement { hosts: vec![Vec::new(); problem.hosts.len()] };
        Search {
            problem,
            effort,
            pass: Pass::Fewest,
            order,
            shared_left,
            alone_left,
            shapes: (0..chains).map(of).collect(),
            usage: hosts.clone().map(|host| Usage::of(problem, host, &[])).collect(),
            placement: empty,
            steps: 0,
            best: None,
            done: false,
        }
    }

    fn out_of_steps(&self) -> bool {
        self.steps >= self.effort.steps
    }

    fn all_cuts(&self) -> bool {
        let hosts = 0..self.problem.hosts.len();
        let chains = 0..self.problem.demands.len();
        let of = |chain: usize| hosts.clone().all(|host| all_cuts(self.problem, chain, host));
        chains.into_iter().all(of)
    }

    /// Places the chains from a place of the order on.
    fn chain(&mut self, at: usize) {
        let Some(chain) = self.order.get(at).copied() else { return self.found() };
        if self.hopeless(at) {
            return;
        }
        for host in self.hosts(chain) {
            for shape in 0..self.shapes[chain][host].len() {
                if self.done || self.out_of_steps() {
                    return;
                }
                self.task((at, host, shape), 0);
            }
        }
    }

    /// Places the tasks of a chain, in a shape, from one on.
    fn task(&mut self, choice: (usize, usize, usize), index: usize) {
        let (at, host, shape) = choice;
        let chain = self.order[at];
        let shape = &self.shapes[chain][host][shape];
        if index == shape.tasks() {
            return self.chain(at + 1);
        }
        let (from, to) = shape.blocks[index % shape.blocks.len()];
        let replica = (index / shape.blocks.len()) as u32;
        let mut task = Task { chain, replica, replicas: shape.replicas, from, to, core: 0 };
        // Replicas of one task are alike: each goes to no lower core than the one before it.
        let alike = shape.blocks.len() == 1 && index > 0;
        let lowest = self.placement.hosts[host].last().filter(|_| alike).map_or(0, |one| one.core);
        let fullest_first = self.pass == Pass::Fewest;
        let there = (self.placement.hosts[host].as_slice(), &self.usage[host]);
        for core in cores((self.problem, host), there, (&task, lowest), fullest_first) {
            if self.done || self.out_of_steps() {
                return;
            }
            // What a step costs grows with the host's tasks.
            self.steps += self.placement.hosts[host].len() as u64 + 1;
            task.core = core;
            self.placement.hosts[host].push(task);
            let usage = Usage::of(self.problem, host, &self.placement.hosts[host]);
            let fits = usage.fits(self.problem, host);
            let before = std::mem::replace(&mut self.usage[host], usage);
            if fits && !self.hopeless(at + 1) {
                self.task(choice, index + 1);
            }
            self.usage[host] = before;
            self.placement.hosts[host].pop();
        }
    }

    fn found(&mut self) {
        let score = Score::of_usage(&self.usage);
        if self.best.as_ref().is_none_or(|(best, _)| score.beats(best)) {
            self.best = Some((score, self.placement.clone()));
            self.done = self.effort.any;
        }
    }

    /// Whether what is placed, and the chains from a place of the order on, cannot be better than
    /// the best, or cannot be at all.
    fn hopeless(&self, at: usize) -> bool {
        let problem = self.problem;
        let now = Score::of_usage(&self.usage);
        let mut free = 0.0;
        let (mut idle_here, mut idle_elsewhere, mut largest) = (0, 0, 1);
        for (host, usage) in self.usage.iter().enumerate() {
            let (cores, used) = (problem.hosts[host].cores, usage.cores_used());
            if used == 0 {
                idle_elsewhere += cores;
                largest = largest.max(cores);
                continue;
            }
            idle_here += cores - used;
            let rest = usage.loads.iter().zip(&usage.tasks).filter(|(_, tasks)| **tasks > 0);
            free += rest.map(|(load, _)| (problem.load_max - load).max(0.0)).sum::<f64>();
        }
        let more = ((self.shared_left[at] - free) / problem.load_max - SLACK).ceil().max(0.0);
        let more = self.alone_left[at] + more as usize;
        let beyond = more.saturating_sub(idle_here);
        if beyond > idle_elsewhere {
            return true;
        }
        let Some((best, _)) = &self.best else { return false };
        let least = (now.hosts + beyond.div_ceil(largest), now.cores + more);
        let most = (best.hosts, best.cores);
        match self.pass {
            Pass::Fewest => least >= most,
            Pass::Headroom if least > most => true,
            Pass::Headroom => {
                // However evenly it is spread, some core gets the mean.
                let placed: f64 = self.usage.iter().flat_map(|usage| &usage.loads).sum();
                let mean = (placed + self.shared_left[at]) / best.cores as f64;
                now.load.max(mean) >= best.load - SLACK
            }
        }
    }

    /// Hosts for a chain: those in use first; of unused ones that are alike only the first.
    fn hosts(&self, chain: usize) -> Vec<usize> {
        let pinned = self.problem.demands[chain].pinned;
        let used = |host: &usize| self.usage[*host].cores_used() > 0;
        let mut hosts = Vec::new();
        for host in 0..self.problem.hosts.len() {
            let twin =
                |other: &usize| !used(other) && !used(&host) && alike(self.problem, *other, host);
            if pinned.is_none_or(|pin| pin == host) && !hosts.iter().any(twin) {
                hosts.push(host);
            }
        }
        hosts.sort_by_key(|host| !used(host));
        hosts
    }
}
