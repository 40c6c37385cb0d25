//! A plan as output: text for people, and as JSON to programs (docs/plan.md).

use serde::Serialize;

use super::breaking::{Break, Most, all_rising, most, one_rising};
use super::problem::Problem;
use super::search::{Effort, Score, Solved, solve};
use super::usage::{Placement, Task, Usage};

/// What came of planning.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// Where everything runs.
    Plan(Plan),
    /// There is no placement.
    None(Most),
}

/// Where everything runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Whether it is known that there is no better plan.
    pub proved: bool,
    /// Hosts on which something runs.
    pub hosts_used: usize,
    /// Cores on which something runs.
    pub cores_used: usize,
    /// Share of the most loaded core that is free.
    pub headroom: f64,
    /// All hosts.
    pub hosts: Vec<HostPlan>,
    /// All chains.
    pub chains: Vec<ChainPlan>,
    /// What ends first when all rates rise together.
    pub first_break: Option<Break>,
}

/// What runs on a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostPlan {
    /// As the plan file calls it.
    pub name: String,
    /// As its description calls itself.
    pub hardware: String,
    /// Cores that it has for chains.
    pub cores_available: usize,
    /// Those on which something runs.
    pub cores: Vec<CorePlan>,
    /// Bytes of memory taken.
    pub memory_bytes: f64,
    /// Bytes of memory that it has for chains.
    pub memory_available_bytes: f64,
    /// Its sockets.
    pub sockets: Vec<SocketPlan>,
    /// Its ports that chains name.
    pub links: Vec<LinkPlan>,
}

/// The last cache of a socket.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SocketPlan {
    /// Bytes that what runs there reaches.
    pub working_set_bytes: f64,
    /// Bytes of its last cache.
    pub cache_bytes: f64,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkPlan {
    /// As the description calls it.
    pub name: String,
    /// Bits a second.
    pub bits: f64,
    /// Share of the port.
    pub load: f64,
}

/// What runs on a core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CorePlan {
    /// Counted from 0.
    pub core: usize,
    /// Counted from 0.
    pub socket: usize,
    /// Share of its cycles that is used.
    pub load: f64,
    /// Share that is free.
    pub headroom: f64,
    /// What runs there.
    pub tasks: Vec<TaskPlan>,
}

/// Functions that run one after the other on a core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskPlan {
    /// Name of the chain.
    pub chain: String,
    /// Counted from 0.
    pub replica: u32,
    /// Their names, in order.
    pub functions: Vec<String>,
    /// Whether in a process of its own.
    pub isolated: bool,
    /// Packets a second that enter the chain by this replica.
    pub packets_per_second: f64,
    /// Cycles for each of them, with what passing on costs.
    pub cycles_per_packet: f64,
    /// Share of the core.
    pub load: f64,
}

/// How a chain fares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChainPlan {
    /// As the plan file calls it.
    pub name: String,
    /// Where it runs.
    pub host: String,
    /// Packets a second.
    pub packets_per_second: f64,
    /// Cores over which its flows are spread.
    pub replicas: u32,
    /// Tasks of a replica: stages, and functions in processes.
    pub stages: usize,
    /// Cycles per packet, all together.
    pub cycles_per_packet: f64,
    /// Microseconds that a packet takes, as the last of a full batch.
    pub latency_us: f64,
    /// What is allowed.
    pub latency_bound_us: Option<f64>,
    /// What ends first when only its rate rises.
    pub first_break: Option<Break>,
}

/// How long a plan is thought about.
const EFFORT: Effort = Effort { steps: 400_000, any: false };

impl Problem {
    /// Finds the plan, or the most that can be served.
    pub fn plan(&self) -> Answer {
        match solve(self, EFFORT) {
            Solved { best: Some((score, placement)), proved } => {
                Answer::Plan(plan(self, (score, proved), &placement))
            }
            Solved { best: None, .. } => Answer::None(most(self)),
        }
    }
}

fn plan(problem: &Problem, (score, proved): (Score, bool), placement: &Placement) -> Plan {
    let used: Vec<Usage> = placement
        .hosts
        .iter()
        .enumerate()
        .map(|(host, tasks)| Usage::of(problem, host, tasks))
        .collect();
    let hosts = used.iter().enumerate();
    let hosts = hosts.map(|(at, usage)| host(problem, at, &placement.hosts[at], usage)).collect();
    let chains = (0..problem.demands.len()).filter_map(|at| chain(problem, at, placement, &used));
    Plan {
        proved,
        hosts_used: score.hosts,
        cores_used: score.cores,
        headroom: 1.0 - score.load,
        hosts,
        chains: chains.collect(),
        first_break: all_rising(problem, placement),
    }
}

fn host(problem: &Problem, at: usize, tasks: &[Task], usage: &Usage) -> HostPlan {
    let host = &problem.hosts[at];
    let cores = (0..host.cores).filter(|core| usage.tasks[*core] > 0).map(|core| CorePlan {
        core,
        socket: host.socket(core),
        load: usage.loads[core],
        headroom: 1.0 - usage.loads[core],
        tasks: tasks
            .iter()
            .zip(&usage.cycles)
            .filter(|(task, _)| task.core == core)
            .map(|(one, cycles)| task(problem, at, one, *cycles))
            .collect(),
    });
    let sockets = usage.working_sets.iter();
    let links = usage.links.iter().map(|(name, bits)| {
        let capacity = host.hardware.links.get(name).map_or(0.0, |link| link.bits);
        LinkPlan { name: name.clone(), bits: *bits, load: bits / capacity }
    });
    HostPlan {
        name: host.name.clone(),
        hardware: host.hardware.name.clone(),
        cores_available: host.cores,
        cores: cores.collect(),
        memory_bytes: usage.memory,
        memory_available_bytes: host.memory,
        sockets: sockets
            .map(|bytes| SocketPlan { working_set_bytes: *bytes, cache_bytes: host.cache })
            .collect(),
        links: links.collect(),
    }
}

fn task(problem: &Problem, host: usize, task: &Task, cycles: f64) -> TaskPlan {
    let demand = &problem.demands[task.chain];
    let functions = &demand.on[host].functions[task.from..task.to];
    let rate = demand.rate_of_replica(task.replicas);
    TaskPlan {
        chain: demand.chain.name.clone(),
        replica: task.replica,
        functions: functions.iter().map(|work| work.load.name.clone()).collect(),
        isolated: functions.iter().any(|work| work.served_by.is_some()),
        packets_per_second: rate,
        cycles_per_packet: cycles,
        load: rate * cycles / problem.hosts[host].clock(),
    }
}

/// `None` never comes of a whole placement: every chain is on some host.
fn chain(problem: &Problem, at: usize, placement: &Placement, used: &[Usage]) -> Option<ChainPlan> {
    let own = |task: &&Task| task.chain == at;
    let host =
        placement.hosts.iter().position(|tasks| tasks.iter().any(|task| task.chain == at))?;
    let tasks = &placement.hosts[host];
    let first = tasks.iter().find(own)?;
    let chain = &problem.demands[at].chain;
    let cycles = tasks.iter().zip(&used[host].cycles);
    // The dearest replica: they may lie differently.
    let of_replica = |replica| {
        let own = cycles.clone().filter(|(task, _)| (task.chain, task.replica) == (at, replica));
        own.map(|(_, cycles)| cycles).sum::<f64>()
    };
    let latency = used[host].latencies.iter().find(|(chain, _)| *chain == at)?;
    Some(ChainPlan {
        name: chain.name.clone(),
        host: problem.hosts[host].name.clone(),
        packets_per_second: chain.rate,
        replicas: first.replicas,
        stages: tasks.iter().filter(own).filter(|task| task.replica == 0).count(),
        cycles_per_packet: (0..first.replicas).map(of_replica).fold(0.0, f64::max),
        latency_us: latency.1 * 1e6,
        latency_bound_us: chain.latency_us,
        first_break: one_rising(problem, placement, at),
    })
}
