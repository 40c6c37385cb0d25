//! The search against trying everything.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::problem::Problem;
use super::super::search::{Effort, Score, solve};
use super::super::usage::{Placement, Task, Usage};
use super::problem;

/// A chain by random numbers.
#[derive(Debug, Clone)]
struct Drawn {
    /// Cycles per packet of each function at 1000 packets a millisecond, and whether isolated.
    functions: Vec<(u32, bool)>,
    working_set: u32,
    memory: u32,
    latency_us: Option<u32>,
    flags: (bool, bool, bool),
    pinned: bool,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let cycles = prop_oneof![20u32..400, 400u32..900];
    let function = (cycles, prop::bool::weighted(0.2));
    let flags = (prop::bool::weighted(0.7), prop::bool::weighted(0.8), prop::bool::ANY);
    (
        prop::collection::vec(function, 1..=2),
        0u32..30_000,
        0u32..600_000,
        prop::option::weighted(0.3, 20u32..300),
        flags,
        prop::bool::weighted(0.2),
    )
        .prop_map(|(functions, working_set, memory, latency_us, flags, pinned)| Drawn {
            functions,
            working_set,
            memory,
            latency_us,
            flags,
            pinned,
        })
}

fn text(chains: &[Drawn], hosts: usize) -> String {
    let mut text = "headroom = 0.1\n".to_owned();
    for (at, chain) in chains.iter().enumerate() {
        let (parallel, share_core, cross_sockets) = chain.flags;
        let _ = writeln!(text, "[[chain]]\nname = \"c{at}\"\nrate = 1e6\npacket = 100");
        let _ = writeln!(text, "parallel = {parallel}\nshare_core = {share_core}");
        let _ = writeln!(text, "cross_sockets = {cross_sockets}");
        if let Some(bound) = chain.latency_us {
            let _ = writeln!(text, "latency_us = {bound}");
        }
        if chain.pinned {
            let _ = writeln!(text, "host = \"h{}\"", at % hosts);
        }
        for (of, (cycles, isolated)) in chain.functions.iter().enumerate() {
            let run = if *isolated { "isolated" } else { "in-process" };
            let _ = writeln!(text, "[[chain.function]]\nname = \"f{of}\"\ncycles = {cycles}");
            let _ = writeln!(text, "run = \"{run}\"\nworking_set = {}", chain.working_set);
            let _ = writeln!(text, "memory = {}", chain.memory);
        }
    }
    for host in 0..hosts {
        let _ = writeln!(text, "[[host]]\nname = \"h{host}\"\nhardware = \"any\"");
    }
    text
}

/// Every placement of one chain: host, and its tasks.
fn all_shapes(problem: &Problem, chain: usize) -> Vec<(usize, Vec<Task>)> {
    let demand = &problem.demands[chain];
    let mut all = Vec::new();
    for (at, host) in problem.hosts.iter().enumerate() {
        if demand.pinned.is_some_and(|pin| pin != at) {
            continue;
        }
        let list = &demand.on[at];
        let most = if demand.parallel { host.cores as u32 } else { 1 };
        for replicas in 1..=most {
            for cut in 0..1usize << (list.in_process - 1) {
                let mut blocks: Vec<(usize, usize)> = vec![];
                let mut from = 0;
                for function in 0..list.functions.len() {
                    if function + 1 >= list.in_process || cut >> function & 1 == 1 {
                        blocks.push((from, function + 1));
                        from = function + 1;
                    }
                }
                let count = replicas as usize * blocks.len();
                for code in 0..host.cores.pow(count as u32) {
                    let mut rest = code;
                    let mut tasks = vec![];
                    for replica in 0..replicas {
                        for (from, to) in blocks.iter().copied() {
                            let core = rest % host.cores;
                            rest /= host.cores;
                            tasks.push(Task { chain, replica, replicas, from, to, core });
                        }
                    }
                    all.push((at, tasks));
                }
            }
        }
    }
    all
}

/// An upper bound of the placements of one chain, without enumerating them.
fn count_shapes(problem: &Problem, chain: usize) -> f64 {
    let demand = &problem.demands[chain];
    let hosts = problem.hosts.iter().zip(&demand.on);
    let on = hosts.map(|(host, list)| {
        let most = if demand.parallel { host.cores as i32 } else { 1 };
        let cuts = f64::from(1 << (list.in_process - 1));
        cuts * (host.cores as f64).powi(most * list.functions.len() as i32) * f64::from(most)
    });
    on.sum()
}

/// Whether a placement keeps all that the file asks for; written without regard to speed.
fn keeps(problem: &Problem, placement: &Placement) -> bool {
    placement.hosts.iter().enumerate().all(|(at, tasks)| {
        let usage = Usage::of(problem, at, tasks);
        let enough = usage.pressures(problem, at, problem.load_max);
        let enough = enough.iter().all(|(_, pressure)| *pressure <= 1.0 + 1e-9);
        let pairs = || tasks.iter().flat_map(|a| tasks.iter().map(move |b| (a, b)));
        let chain = |task: &Task| &problem.demands[task.chain].chain;
        let socket = |task: &Task| problem.hosts[at].socket(task.core);
        let own = pairs().all(|(a, b)| {
            a.chain == b.chain || a.core != b.core || (chain(a).share_core && chain(b).share_core)
        });
        let near = pairs()
            .all(|(a, b)| a.chain != b.chain || chain(a).cross_sockets || socket(a) == socket(b));
        enough && own && near
    })
}

/// The best placement by trying all; `None` when there are too many to try.
fn by_force(problem: &Problem) -> Option<Option<Score>> {
    let chains = 0..problem.demands.len();
    if chains.clone().map(|at| count_shapes(problem, at)).product::<f64>() > 6_000.0 {
        return None;
    }
    let shapes: Vec<_> = chains.map(|at| all_shapes(problem, at)).collect();
    let count: usize = shapes.iter().map(Vec::len).product();
    let mut best: Option<Score> = None;
    for code in 0..count {
        let mut rest = code;
        let mut placement = Placement { hosts: vec![vec![]; problem.hosts.len()] };
        for shape in &shapes {
            let (host, tasks) = &shape[rest % shape.len()];
            rest /= shape.len();
            placement.hosts[*host].extend(tasks);
        }
        if keeps(problem, &placement) {
            let score = Score::of(problem, &placement);
            if best.is_none_or(|best| score.beats(&best)) {
                best = Some(score);
            }
        }
    }
    Some(best)
}

fn shapes_of_hosts() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let host = (1u32..=4).prop_flat_map(|cores| (Just(cores), 1..=cores.min(2)));
    prop::collection::vec(host, 1..=2)
}

const LONG: Effort = Effort { steps: 20_000_000, any: false };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_search_finds_what_trying_everything_finds(
        chains in prop::collection::vec(drawn(), 1..=4),
        hosts in shapes_of_hosts(),
    ) {
        let problem = problem(&text(&chains, hosts.len()), &hosts);
        let Some(expected) = by_force(&problem) else {
            return Err(TestCaseError::reject("too many placements to try"));
        };
        let solved = solve(&problem, LONG);
        prop_assert!(solved.proved);
        match (expected, solved.best) {
            (None, found) => prop_assert!(found.is_none(), "{found:?}"),
            (Some(expected), found) => {
                let (score, placement) = found.expect("there is one");
                prop_assert!(keeps(&problem, &placement), "{placement:?}");
                let counts = (score.hosts, score.cores);
                prop_assert_eq!(counts, (expected.hosts, expected.cores));
                prop_assert!((score.load - expected.load).abs() < 1e-8, "{score:?} {expected:?}");
            }
        }
    }

    #[test]
    fn large_placements_are_whole_and_keep_everything(
        chains in prop::collection::vec(drawn(), 4..=12),
        hosts in prop::collection::vec((4u32..=16, 1u32..=2), 1..=4),
    ) {
        let problem = problem(&text(&chains, hosts.len()), &hosts);
        let solved = solve(&problem, Effort { steps: 2_000, any: false });
        let Some((score, placement)) = solved.best else { return Ok(()) };
        prop_assert!(keeps(&problem, &placement), "{placement:?}");
        prop_assert_eq!(score, Score::of(&problem, &placement));
        for chain in 0..problem.demands.len() {
            let on = |host: &usize| placement.hosts[*host].iter().any(|task| task.chain == chain);
            let hosts: Vec<usize> = (0..placement.hosts.len()).filter(on).collect();
            prop_assert_eq!(hosts.len(), 1);
            let count = problem.demands[chain].on[hosts[0]].functions.len();
            let own = placement.hosts[hosts[0]].iter().filter(|task| task.chain == chain);
            let mut done: Vec<(u32, usize)> =
                own.clone().flat_map(|t| (t.from..t.to).map(|at| (t.replica, at))).collect();
            done.sort_unstable();
            let replicas = own.clone().next().map_or(0, |task| task.replicas);
            let all = (0..replicas).flat_map(|replica| (0..count).map(move |at| (replica, at)));
            prop_assert_eq!(done, all.collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_task_more_never_makes_anything_less(
        chains in prop::collection::vec(drawn(), 2..=4),
        cores in prop::collection::vec(0usize..4, 16),
    ) {
        let problem = problem(&text(&chains, 1), &[(4, 2)]);
        let mut tasks = vec![];
        let mut before = Usage::of(&problem, 0, &tasks);
        for chain in 0..problem.demands.len() {
            for at in 0..problem.demands[chain].on[0].functions.len() {
                let core = cores[chain * 4 + at];
                let (from, to) = (at, at + 1);
                tasks.push(Task { chain, replica: 0, replicas: 1, from, to, core });
                let after = Usage::of(&problem, 0, &tasks);
                for core in 0..4 {
                    prop_assert!(after.loads[core] >= before.loads[core]);
                }
                prop_assert!(after.memory >= before.memory);
                for ((chain, less), (same, more)) in before.latencies.iter().zip(&after.latencies) {
                    prop_assert!(chain == same && more >= less);
                }
                before = after;
            }
        }
    }
}
