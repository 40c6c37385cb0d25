//! Formulas, with values worked by hand.

use super::super::breaking::{Reason, all_rising, most};
use super::super::hops::{Hop, Hops};
use super::super::usage::{Limit, Placement, Task, Usage};
use super::super::{Answer, Plan};
use super::{hardware, problem};

const HOST: &str = "[[host]]\nname = \"edge\"\nhardware = \"any\"\n";

/// A chain of 1 million packets a second of 100 bytes.
fn chain(name: &str, more: &str, functions: &[(u32, &str)]) -> String {
    let head = format!("[[chain]]\nname = \"{name}\"\nrate = 1e6\npacket = 100\n{more}\n");
    functions.iter().enumerate().fold(head, |text, (at, (cycles, more))| {
        text + &format!("[[chain.function]]\nname = \"f{at}\"\ncycles = {cycles}\n{more}\n")
    })
}

fn task(chain: usize, (from, to): (usize, usize), core: usize) -> Task {
    Task { chain, replica: 0, replicas: 1, from, to, core }
}

#[track_caller]
fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-9), "{a} is not {b}");
}

#[track_caller]
fn hop(found: Hop, gives: f64, takes: f64, delay: f64) {
    near(found.gives, gives);
    near(found.takes, takes);
    near(found.delay, delay);
}

fn planned(text: &str, hosts: &[(u32, u32)]) -> Plan {
    match problem(text, hosts).plan() {
        Answer::Plan(plan) => plan,
        Answer::None(most) => panic!("no plan: {most:?}"),
    }
}

#[test]
fn passing_on_costs_lines_copies_and_turns() {
    let hops = Hops::of(&hardware(2, 1), 2.0).unwrap();
    // A line takes 80 cycles, a quarter of that when asked for in advance: 20.
    hop(hops.next_core(false), 20.0 / 8.0, 20.0 * 2.125, 160.0);
    hop(hops.next_core(true), 40.0 / 8.0, 40.0 * 2.125, 320.0);
    // 100 bytes: 2 lines to copy at 5 cycles, 3 to move.
    hop(hops.process_elsewhere(100.0, false), 10.0 + 60.0, 60.0, 320.0);
    hop(hops.process_elsewhere(100.0, true), 10.0 + 120.0, 120.0, 640.0);
    // 1600 cycles to wake and 3200 to be awake, for 32 packets; 2 lines in and out at 1 cycle.
    hop(hops.process_here(100.0, 32.0), 4.0 + 150.0, 150.0, 9600.0);
    let mut silent = hardware(2, 1);
    silent.between_cores = None;
    assert_eq!(Hops::of(&silent, 2.0), None);
}

#[test]
fn loads_are_cycles_times_rate_over_clock() {
    let problem = problem(&(chain("a", "", &[(300, ""), (200, "")]) + HOST), &[(2, 1)]);
    let together = Usage::of(&problem, 0, &[task(0, (0, 2), 1)]);
    assert_eq!(together.cycles, [500.0]);
    assert_eq!((together.loads[0], together.loads[1]), (0.0, 0.5));
    let apart = Usage::of(&problem, 0, &[task(0, (0, 1), 0), task(0, (1, 2), 1)]);
    assert_eq!(apart.cycles, [302.5, 242.5]);
    near(apart.loads[0], 0.3025);
    near(apart.loads[1], 0.2425);
}

#[test]
fn an_isolated_function_is_served_by_the_thread_before_it() {
    let functions = [(300, ""), (200, "run = \"isolated\""), (100, "")];
    let problem = problem(&(chain("a", "", &functions) + HOST), &[(2, 1)]);
    let list = &problem.demands[0].on[0];
    let names: Vec<&str> = list.functions.iter().map(|work| work.load.name.as_str()).collect();
    assert_eq!(names, ["f0", "f2", "f1"]);
    assert_eq!((list.in_process, list.functions[2].served_by), (2, Some(0)));
    let apart = Usage::of(&problem, 0, &[task(0, (0, 2), 0), task(0, (2, 3), 1)]);
    assert_eq!(apart.cycles, [400.0 + 70.0, 200.0 + 60.0]);
    let together = Usage::of(&problem, 0, &[task(0, (0, 2), 0), task(0, (2, 3), 0)]);
    assert_eq!(together.cycles, [400.0 + 154.0, 200.0 + 150.0]);
}

#[test]
fn what_shares_a_cache_is_slower() {
    let text = chain("a", "", &[(100, "working_set = 5000")])
        + &chain("b", "", &[(100, "working_set = 15000\nlines = 2")])
        + HOST;
    let problem = problem(&text, &[(1, 1)]);
    let alone = Usage::of(&problem, 0, &[task(1, (0, 1), 0)]);
    assert_eq!(alone.cycles, [100.0]);
    // 10 kB of cache for 20 kB: half of the lines miss, where a third did of b's and none of a's.
    let both = Usage::of(&problem, 0, &[task(0, (0, 1), 0), task(1, (0, 1), 0)]);
    assert_eq!(both.working_sets, [20_000.0]);
    near(both.cycles[0], 100.0 + 200.0 * 0.5);
    near(both.cycles[1], 100.0 + 2.0 * 200.0 * (0.5 - 1.0 / 3.0));
    assert_eq!(both.memory, 20_000.0);
}

#[test]
fn a_packet_waits_for_others_and_for_its_batch() {
    let problem = problem(&(chain("a", "", &[(500, "")]) + HOST), &[(1, 1)]);
    let usage = Usage::of(&problem, 0, &[task(0, (0, 1), 0)]);
    // 32 packets of 500 cycles are 16 us; at half load M/D/1 waits half of a service.
    near(usage.latencies[0].1, 16e-6 + 8e-6);
}

#[test]
fn what_breaks_first_is_found_by_rate() {
    let placement = Placement { hosts: vec![vec![task(0, (0, 1), 0)]] };
    let text = chain("a", "", &[(500, "")]) + HOST;
    let found = all_rising(&problem(&text, &[(1, 1)]), &placement).unwrap();
    near(found.factor, 2.0);
    assert_eq!(found.limit, Limit::Core { host: "edge".into(), core: 0 });
    // 16 + 16 x load / (2 x (1 - load)) = 50 at a load of 17 / 21.
    let text = chain("a", "latency_us = 50", &[(500, "")]) + HOST;
    let found = all_rising(&problem(&text, &[(1, 1)]), &placement).unwrap();
    near(found.factor, 2.0 * 17.0 / 21.0);
    assert_eq!(found.limit, Limit::Latency { chain: "a".into() });
    // 1e9 bits a second for frames of 124 bytes.
    let text = chain("a", "link = \"wan\"", &[(1, "")]) + HOST;
    let found = all_rising(&problem(&text, &[(1, 1)]), &placement).unwrap();
    near(found.factor, 1e9 / (124.0 * 8.0 * 1e6));
    let idle = problem(&(chain("a", "", &[(0, "")]) + HOST), &[(1, 1)]);
    assert_eq!(all_rising(&idle, &placement), None);
}

#[test]
fn flows_are_spread_when_a_core_is_not_enough() {
    // 1000 cycles at 80 % of a core each: 2 cores, or 1.25; with a tenth of skew 550 each.
    let plan = planned(&(chain("a", "skew = 0.1", &[(1000, "")]) + HOST), &[(4, 1)]);
    assert_eq!((plan.hosts_used, plan.cores_used, plan.chains[0].replicas), (1, 2, 2));
    near(plan.headroom, 0.45);
    assert!(plan.proved);
    let found = plan.first_break.unwrap();
    near(found.factor, 1.0 / 0.55);
}

#[test]
fn a_chain_that_may_not_be_spread_is_a_pipeline() {
    let functions = [(500, ""), (500, ""), (100, "parallel = false")];
    let plan = planned(&(chain("a", "", &functions) + HOST), &[(4, 1)]);
    assert_eq!((plan.cores_used, plan.chains[0].replicas, plan.chains[0].stages), (2, 1, 2));
    let tasks = plan.hosts[0].cores.iter().flat_map(|core| &core.tasks);
    let functions: Vec<&[String]> = tasks.map(|task| task.functions.as_slice()).collect();
    assert!(functions.contains(&["f0".to_owned()].as_slice()), "{functions:?}");
}

#[test]
fn processes_alone_have_a_thread_that_serves_them() {
    let plan = planned(&(chain("a", "run = \"isolated\"", &[(100, "")]) + HOST), &[(2, 1)]);
    let tasks: Vec<_> = plan.hosts[0].cores.iter().flat_map(|core| &core.tasks).collect();
    assert_eq!(tasks.iter().filter(|task| task.isolated).count(), 1);
    assert!(tasks.iter().any(|task| task.functions == ["(ports)"]), "{tasks:?}");
}

#[test]
fn the_most_that_can_be_served_has_its_reason() {
    let found = |more: &str, function: (u32, &str), cores: u32| {
        let most = most(&problem(&(chain("a", more, &[function]) + HOST), &[(cores, 1)]));
        (most.factor, most.reason, most.chains.join(" "))
    };
    let about = |(factor, reason, chains): (f64, Reason, String), expected: f64| {
        assert!((factor - expected).abs() < 0.002, "{factor} is not {expected}");
        (reason, chains)
    };
    assert_eq!(about(found("", (1000, ""), 1), 0.8), (Reason::Cycles, String::new()));
    let spread = found("parallel = false", (1000, ""), 2);
    assert_eq!(about(spread, 0.8), (Reason::NotParallel, "a".into()));
    let memory = found("", (10, "memory = 2e6"), 1);
    assert_eq!(about(memory, 0.0), (Reason::Memory, String::new()));
    let latency = found("latency_us = 1", (500, ""), 1);
    assert_eq!(about(latency, 0.0), (Reason::Latency, "a".into()));
    let long = chain("a", "link = \"wan\"", &[(125, "")]).replace("packet = 100", "packet = 1000");
    let link = most(&problem(&(long + HOST), &[(4, 1)]));
    assert_eq!((link.reason, link.chains.join(" ")), (Reason::Links, "a".into()));
    assert!((link.factor - 1e9 / 8192e6).abs() < 0.002, "{link:?}");
}

#[test]
fn a_core_of_its_own_is_kept() {
    let text =
        chain("a", "share_core = false", &[(100, "")]) + &chain("b", "", &[(100, "")]) + HOST;
    assert_eq!(planned(&text, &[(2, 1)]).cores_used, 2);
    let Answer::None(most) = problem(&text, &[(1, 1)]).plan() else {
        panic!("one core will not do")
    };
    assert_eq!((most.reason, most.factor), (Reason::OwnCores, 0.0));
    assert_eq!(most.chains, ["a"]);
}
