//! What a placement comes to on a host: loads, caches, memory, latencies. Adding a task never makes
//! any of them less, which the search relies on.

use std::collections::BTreeMap;

use serde::Serialize;

use super::hops::Hop;
use super::problem::{Demand, Host, Problem, WorkList};

/// Functions of one replica of a chain that run on one core, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub chain: usize,
    pub replica: u32,
    /// How many replicas the chain has.
    pub replicas: u32,
    /// First function, by its index in the work list.
    pub from: usize,
    /// One past the last.
    pub to: usize,
    pub core: usize,
}

/// The tasks of each host; those of a chain together, and of these those of a replica.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Placement {
    pub hosts: Vec<Vec<Task>>,
}

/// What tasks come to on their host.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Usage {
    /// Share of each core's cycles that is used.
    pub loads: Vec<f64>,
    /// Tasks of each core.
    pub tasks: Vec<u32>,
    /// Cycles per packet of each task, with hops and misses.
    pub cycles: Vec<f64>,
    /// Bytes.
    pub memory: f64,
    /// Bytes that the tasks of each socket reach.
    pub working_sets: Vec<f64>,
    /// Bits a second, by link.
    pub links: BTreeMap<String, f64>,
    /// Seconds, by chain.
    pub latencies: Vec<(usize, f64)>,
}

/// What ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "resource", rename_all = "kebab-case")]
pub enum Limit {
    /// The cycles of a core.
    Core {
        /// The host.
        host: String,
        /// Counted from 0.
        core: usize,
    },
    /// The memory of a host.
    Memory {
        /// The host.
        host: String,
    },
    /// A port of a host.
    Link {
        /// The host.
        host: String,
        /// The port.
        link: String,
    },
    /// A chain's latency bound.
    Latency {
        /// The chain.
        chain: String,
    },
}

impl Demand {
    /// Packets a second of the busiest replica.
    pub fn rate_of_replica(&self, replicas: u32) -> f64 {
        let skew = if replicas > 1 { 1.0 + self.chain.skew } else { 1.0 };
        (self.chain.rate * skew / f64::from(replicas)).min(self.chain.rate)
    }
}

/// Share of lines that are not in a cache of so many bytes.
fn missing(working_set: f64, cache: f64) -> f64 {
    if working_set > cache { 1.0 - cache / working_set } else { 0.0 }
}

impl Usage {
    /// Of tasks on a host.
    pub fn of(problem: &Problem, at: usize, tasks: &[Task]) -> Usage {
        let host = &problem.hosts[at];
        let mut usage = Usage {
            loads: vec![0.0; host.cores],
            tasks: vec![0; host.cores],
            working_sets: vec![0.0; host.sockets()],
            ..Usage::default()
        };
        for chain in tasks.chunk_by(|a, b| a.chain == b.chain) {
            usage.take_room(problem, at, chain);
        }
        for replica in replicas(tasks) {
            usage.take_cycles(problem, at, replica);
        }
        usage.wait(problem, at, tasks);
        usage
    }

    /// Memory, caches and links. Replicas share tables, so these count once on each socket.
    fn take_room(&mut self, problem: &Problem, at: usize, tasks: &[Task]) {
        let host = &problem.hosts[at];
        let demand = &problem.demands[tasks[0].chain];
        let functions = &demand.on[at].functions;
        let mut seen = Vec::new();
        for task in tasks {
            let loads = || functions[task.from..task.to].iter().map(|work| &work.load);
            if task.replica == 0 {
                self.memory += loads().map(|load| load.memory).sum::<f64>();
            }
            let key = (task.from, host.socket(task.core));
            if !seen.contains(&key) {
                seen.push(key);
                self.working_sets[key.1] += loads().map(|load| load.working_set).sum::<f64>();
            }
        }
        if let Some(name) = &demand.chain.link {
            *self.links.entry(name.clone()).or_default() += bits(demand, host, name);
        }
    }

    /// Cycles of the tasks of one replica.
    fn take_cycles(&mut self, problem: &Problem, at: usize, tasks: &[Task]) {
        let host = &problem.hosts[at];
        let demand = &problem.demands[tasks[0].chain];
        let list = &demand.on[at];
        let first = self.cycles.len();
        for task in tasks {
            let cold = self.colder(host, list, task);
            let loads = list.functions[task.from..task.to].iter().map(|work| &work.load);
            self.cycles.push(loads.map(|load| load.cycles + load.lines * cold).sum());
        }
        for index in 0..tasks.len() {
            if let Some((other, hop)) = hop(demand, host, list, (tasks, index)) {
                let (giver, taker) = (first + other, first + index);
                self.cycles[giver] += hop.gives;
                self.cycles[taker] += hop.takes;
            }
        }
        let rate = demand.rate_of_replica(tasks[0].replicas);
        for (task, cycles) in tasks.iter().zip(&self.cycles[first..]) {
            self.loads[task.core] += rate * cycles / host.clock();
            self.tasks[task.core] += 1;
        }
    }

    /// Cycles more per line than when the chain was alone, as others share the last cache.
    fn colder(&self, host: &Host, list: &WorkList, task: &Task) -> f64 {
        let now = missing(self.working_sets[host.socket(task.core)], host.cache);
        (now - missing(list.working_set, host.cache)).max(0.0) * host.miss
    }

    /// Latencies: at each core a packet waits for the work that is before it (M/D/1), then for all
    /// of its batch; a batch is full.
    fn wait(&mut self, problem: &Problem, at: usize, tasks: &[Task]) {
        let host = &problem.hosts[at];
        let mut rounds = vec![0.0; host.cores];
        let mut own = Vec::with_capacity(tasks.len());
        for (task, cycles) in tasks.iter().zip(&self.cycles) {
            own.push(cycles * f64::from(problem.demands[task.chain].chain.burst) / host.clock());
            rounds[task.core] += own[own.len() - 1];
        }
        let mut first = 0;
        for replica in replicas(tasks) {
            let demand = &problem.demands[replica[0].chain];
            let list = &demand.on[at];
            let mut seconds = 0.0;
            for (index, task) in replica.iter().enumerate() {
                seconds += own[first + index] + self.queueing(task.core, &rounds);
                if let Some((other, hop)) = hop(demand, host, list, (replica, index)) {
                    seconds += hop.delay / host.clock();
                    if list.functions[task.from].served_by.is_some() {
                        seconds += self.queueing(replica[other].core, &rounds);
                    }
                }
            }
            first += replica.len();
            match self.latencies.last_mut() {
                Some((chain, most)) if *chain == replica[0].chain => *most = most.max(seconds),
                _ => self.latencies.push((replica[0].chain, seconds)),
            }
        }
    }

    /// Mean wait of M/D/1 (Pollaczek and Khinchine) where a round of the core is one service.
    fn queueing(&self, core: usize, rounds: &[f64]) -> f64 {
        let load = self.loads[core];
        match load < 1.0 {
            true => rounds[core] * load / (2.0 * (1.0 - load)),
            false => f64::INFINITY,
        }
    }

    /// Every resource with the share of it that is used; above 1 it is not enough. `load_max` is
    /// the whole of a core.
    pub fn pressures(&self, problem: &Problem, at: usize, load_max: f64) -> Vec<(Limit, f64)> {
        let host = &problem.hosts[at];
        let name = || host.name.clone();
        let cores = self.loads.iter().enumerate();
        let mut all: Vec<(Limit, f64)> = cores
            .map(|(core, load)| (Limit::Core { host: name(), core }, load / load_max))
            .collect();
        all.push((Limit::Memory { host: name() }, self.memory / host.memory));
        for (link, bits) in &self.links {
            let share = bits / capacity(host, link);
            all.push((Limit::Link { host: name(), link: link.clone() }, share));
        }
        for (chain, seconds) in &self.latencies {
            let chain = &problem.demands[*chain].chain;
            if let Some(bound) = chain.latency_us {
                let limit = Limit::Latency { chain: chain.name.clone() };
                all.push((limit, seconds * 1e6 / bound));
            }
        }
        all
    }

    /// Whether everything is enough, with the headroom.
    pub fn fits(&self, problem: &Problem, at: usize) -> bool {
        let host = &problem.hosts[at];
        let bound = |chain: usize| problem.demands[chain].chain.latency_us;
        self.loads.iter().all(|load| *load <= problem.load_max + SLACK)
            && self.memory <= host.memory
            && self.links.iter().all(|(link, bits)| *bits <= capacity(host, link))
            && self.latencies.iter().all(|(chain, seconds)| {
                bound(*chain).is_none_or(|bound| seconds * 1e6 <= bound * (1.0 + SLACK))
            })
    }

    /// Cores that do anything.
    pub fn cores_used(&self) -> usize {
        self.tasks.iter().filter(|tasks| **tasks > 0).count()
    }

    /// The highest load of a core.
    pub fn load_most(&self) -> f64 {
        self.loads.iter().copied().fold(0.0, f64::max)
    }
}

/// What rounding may add to a share.
pub(super) const SLACK: f64 = 1e-9;

fn replicas(tasks: &[Task]) -> impl Iterator<Item = &[Task]> {
    tasks.chunk_by(|a, b| (a.chain, a.replica) == (b.chain, b.replica))
}

/// How packets come to the task at `index`: from which other task, at what cost. `None` for the
/// first of a chain, from a task that is not placed yet, and where nothing lies between.
fn hop(
    demand: &Demand,
    host: &Host,
    list: &WorkList,
    (tasks, index): (&[Task], usize),
) -> Option<(usize, Hop)> {
    let (hops, task) = (host.hops.as_ref()?, &tasks[index]);
    let serves = list.functions[task.from].served_by;
    let giver = serves.or(task.from.checked_sub(1))?;
    let other = tasks.iter().position(|one| (one.from..one.to).contains(&giver))?;
    let other_socket = host.socket(tasks[other].core) != host.socket(task.core);
    let near = tasks[other].core == task.core;
    let (packet, burst) = (demand.chain.packet, f64::from(demand.chain.burst));
    let hop = match (serves.is_some(), near) {
        (false, true) => return None,
        (false, false) => hops.next_core(other_socket),
        (true, true) => hops.process_here(packet, burst),
        (true, false) => hops.process_elsewhere(packet, other_socket),
    };
    Some((other, hop))
}

fn bits(demand: &Demand, host: &Host, link: &str) -> f64 {
    let overhead = host.hardware.links.get(link).map_or(0.0, |link| link.overhead);
    demand.chain.rate * (demand.chain.packet + overhead) * 8.0
}

/// Bits a second; none where there is no such port.
fn capacity(host: &Host, link: &str) -> f64 {
    host.hardware.links.get(link).map_or(0.0, |link| link.bits)
}
