//! A placement put together chain by chain, without looking back: good where there are too many
//! chains to try much, and where the search begins.

use super::choices::{alike, cores};
use super::problem::Problem;
use super::shapes::Shape;
use super::usage::{Placement, SLACK, Task, Usage};

/// Numbers of replicas and stages that are tried for a chain on a host; few tasks come first.
const SHAPES_MAX: usize = 24;
/// How often it begins anew, with the chain in front for which there was no place.
const TRIES: usize = 4;

/// Places all chains, the first of the order first; `None` if one finds no place in the end.
pub(super) fn construct(
    problem: &Problem,
    shapes: &[Vec<Vec<Shape>>],
    order: &[usize],
) -> Option<Placement> {
    for tight in [true, false] {
        let mut order = order.to_vec();
        for _ in 0..TRIES {
            let mut construction = Construction::new(problem, shapes, tight);
            let homeless = (0..order.len()).find(|at| !construction.assign(order[*at]));
            let Some(at) = homeless else { return Some(construction.placement) };
            order[..=at].rotate_right(1);
        }
    }
    None
}

/// What a place for a chain costs: another host, more cores, load.
type Price = (bool, usize, f64);

/// What is placed so far.
struct Construction<'a> {
    problem: &'a Problem,
    shapes: &'a [Vec<Vec<Shape>>],
    /// Whether cores are filled one after the other, or all alike: then there is room for what
    /// further chains make dearer by their use of caches.
    tight: bool,
    placement: Placement,
    usage: Vec<Usage>,
}

impl<'a> Construction<'a> {
    fn new(problem: &'a Problem, shapes: &'a [Vec<Vec<Shape>>], tight: bool) -> Construction<'a> {
        let hosts = 0..problem.hosts.len();
        Construction {
            problem,
            shapes,
            tight,
            placement: Placement { hosts: vec![Vec::new(); problem.hosts.len()] },
            usage: hosts.map(|host| Usage::of(problem, host, &[])).collect(),
        }
    }

    /// Places a chain where it takes the fewest hosts and cores more, or the fewest cycles; false
    /// if there is no place.
    fn assign(&mut self, chain: usize) -> bool {
        let mut best: Option<(Price, usize, (Vec<Task>, Usage))> = None;
        let mut unused: Vec<usize> = Vec::new();
        for host in 0..self.problem.hosts.len() {
            let before = self.usage[host].cores_used();
            if before == 0 {
                if unused.iter().any(|other| alike(self.problem, *other, host)) {
                    continue;
                }
                unused.push(host);
            }
            let Some((tasks, usage)) = self.on(chain, host) else { continue };
            let price = match self.tight {
                true => (before == 0, usage.cores_used() - before, usage.load_most()),
                false => (false, 0, total(&usage) - total(&self.usage[host])),
            };
            if best.as_ref().is_none_or(|(best, ..)| price < *best) {
                best = Some((price, host, (tasks, usage)));
            }
        }
        let Some((_, host, (tasks, usage))) = best else { return false };
        self.placement.hosts[host] = tasks;
        self.usage[host] = usage;
        true
    }

    /// The host's tasks with those of a chain, in the first shape that fits.
    fn on(&self, chain: usize, host: usize) -> Option<(Vec<Task>, Usage)> {
        let (demand, machine) = (&self.problem.demands[chain], &self.problem.hosts[host]);
        let free: f64 =
            self.usage[host].loads.iter().map(|load| (self.problem.load_max - load).max(0.0)).sum();
        let work = demand.chain.rate * demand.on[host].cycles / machine.clock();
        if demand.pinned.is_some_and(|pin| pin != host) || work > free + SLACK {
            return None;
        }
        // Of those with as many replicas and stages, the first is the most even one.
        let mut seen = Vec::new();
        let mut shapes = self.shapes[chain][host].iter().filter(|shape| {
            let sort = (shape.replicas, shape.blocks.len());
            let first = !seen.contains(&sort);
            seen.push(sort);
            first
        });
        let mut tried = shapes.by_ref().take(SHAPES_MAX);
        tried.find_map(|shape| self.in_shape(chain, host, shape))
    }

    /// Each task goes to the fullest core that can take it, or to an unused or the emptiest one.
    fn in_shape(&self, chain: usize, host: usize, shape: &Shape) -> Option<(Vec<Task>, Usage)> {
        let mut tasks = self.placement.hosts[host].clone();
        let mut usage = self.usage[host].clone();
        for replica in 0..shape.replicas {
            for (from, to) in shape.blocks.iter().copied() {
                let replicas = shape.replicas;
                let mut task = Task { chain, replica, replicas, from, to, core: 0 };
                let choices = cores((self.problem, host), (&tasks, &usage), (&task, 0), self.tight);
                let fitting = choices.into_iter().find_map(|core| {
                    task.core = core;
                    tasks.push(task);
                    let usage = Usage::of(self.problem, host, &tasks);
                    let fits = usage.fits(self.problem, host);
                    if !fits {
                        tasks.pop();
                    }
                    fits.then_some(usage)
                });
                usage = fitting?;
            }
        }
        Some((tasks, usage))
    }
}

fn total(usage: &Usage) -> f64 {
    usage.loads.iter().sum()
}
