//! Configurations that would grow a decision structure without bounds: a plan comes in bounded
//! time, and is right.

use std::time::{Duration, Instant};

use thruway_flow::ast::{Base, Expr, Rule, Word};
use thruway_flow::chain::{Changes, Role};
use thruway_flow::plan::{Hop, Plan};
use thruway_flow::{PacketView, consolidate};

use crate::examples::Build;

/// Longer than any of these takes, by much, in a debug build on a slow machine.
const LONGEST: Duration = Duration::from_secs(60);

fn plan(build: &Build) -> Plan {
    let begin = Instant::now();
    let plan = consolidate(build.chain()).unwrap();
    assert!(begin.elapsed() < LONGEST, "{:?}", begin.elapsed());
    println!("{:?} {} steps {} leaves", begin.elapsed(), plan.decision.len(), plan.leaves.len());
    plan
}

fn range(at: u16, lo: u32, hi: u32) -> Expr {
    Expr::Test(Word { base: Base::Frame, at, mask: u32::MAX, lo, hi })
}

/// Rules over overlapping ranges of several words: test by test they would make a step for each
/// combination.
fn overlapping(count: u32, outputs: u32) -> Vec<Rule> {
    let random = |i: u32| i.wrapping_mul(0x9e37_79b1) ^ (i << 7);
    (0..count)
        .map(|i| {
            let ranges = (0..4).map(|word| {
                let lo = random(i * 4 + word);
                range(word as u16 * 4, lo, lo.saturating_add(u32::MAX / 3))
            });
            Rule::new(Expr::All(ranges.collect()), i % outputs)
        })
        .collect()
}

fn frames() -> impl Iterator<Item = [u8; 16]> {
    (0..2000_u32).map(|i| {
        let word = |at: u32| (i * 4 + at).wrapping_mul(0x85eb_ca6b).to_be_bytes();
        let words = [word(0), word(1), word(2), word(3)];
        std::array::from_fn(|at| words[at / 4][at % 4])
    })
}

/// Each dispatcher that is decided is decided as its rules say.
fn assert_right(build: &Build, plan: &Plan) -> usize {
    let mut decided = 0;
    for frame in frames() {
        let view = PacketView::from_frame(&frame);
        let leaf = plan.classify(0, &view);
        for (node, at) in build.chain().nodes.iter().zip(&plan.nodes) {
            let Role::Dispatcher(rules) = &node.role else { continue };
            match at.hops[usize::from(leaf)] {
                Hop::InPlace | Hop::Never => {}
                hop => {
                    let verdict = thruway_flow::evaluate_naive(rules, &view);
                    let known = (verdict as usize) < node.outputs.len();
                    let expected = if known { Hop::Output(verdict as u16) } else { Hop::Drop };
                    assert_eq!(hop, expected);
                    decided += 1;
                }
            }
        }
    }
    decided
}

#[test]
fn thousands_of_overlapping_rules() {
    for count in [60, 400, 4000] {
        let mut build = Build::default();
        let (entry, sink) = (build.entry("fc"), build.function("sink", Changes::Nothing));
        let first = build.rules("first", overlapping(count, 3));
        let second = build.rules("second", overlapping(count + 7, 2));
        build.link(entry, first).link(first, second).link(first, sink).link(first, second);
        build.link(second, sink).link(second, sink);
        let plan = plan(&build);
        assert!(assert_right(&build, &plan) > 2000);
    }
}

#[test]
fn more_combinations_than_leaves() {
    // 24 dispatchers behind a fork, each with two outputs: 2^24 combinations.
    let mut build = Build::default();
    let (entry, sink) = (build.entry("fc"), build.function("sink", Changes::Nothing));
    let fork = build.function("tee", Changes::Nothing);
    build.link(entry, fork);
    for i in 0..24 {
        let half = vec![Rule::new(range(i % 3 * 4, 0, u32::MAX / 25 * u32::from(i + 1)), 0)];
        let rest = [half, vec![Rule::new(Expr::Const(true), 1)]].concat();
        let one = build.rules(&format!("d{i}"), rest);
        build.link(fork, one).link(one, sink).link(one, sink);
    }
    let plan = plan(&build);
    assert!(assert_right(&build, &plan) > 2000);
    // Words are three, so most of the combinations are impossible: all are decided.
    assert!(plan.remarks.is_empty(), "{:?}", plan.remarks);

    let mut build = Build::default();
    let (entry, sink) = (build.entry("fc"), build.function("sink", Changes::Nothing));
    let fork = build.function("tee", Changes::Nothing);
    build.link(entry, fork);
    for i in 0..24_u32 {
        let bit = Word::equal(Base::Frame, 0, 1 << i, 1 << i);
        let rules = vec![Rule::new(Expr::Test(bit), 0), Rule::new(Expr::Const(true), 1)];
        let one = build.rules(&format!("d{i}"), rules);
        build.link(fork, one).link(one, sink).link(one, sink);
    }
    let plan = self::plan(&build);
    assert!(plan.remarks[0].contains("12 of 24 dispatchers look at packets themselves"));
    assert!(assert_right(&build, &plan) > 2000);
}

#[test]
fn thousands_of_leaves_with_sessions() {
    let mut build = Build::default();
    let (entry, fork) = (build.entry("fc"), build.function("tee", Changes::Nothing));
    build.link(entry, fork);
    for i in 0..13_u32 {
        let port = Word::equal(Base::Transport, 0, 1 << i, 1 << i);
        let rules = vec![Rule::new(Expr::Test(port), 0), Rule::new(Expr::Const(true), 1)];
        let one = build.rules(&format!("d{i}"), rules);
        let sessions = ["connection", "pair", "source"][i as usize % 3];
        let functions = [0, 1].map(|at| build.stateful(&format!("f{i}{at}"), sessions, 4));
        build.link(fork, one).link(one, functions[0]).link(one, functions[1]);
    }
    let plan = plan(&build);
    assert!(plan.leaves.len() == 1 << 13 || !plan.remarks.is_empty());
    assert!(plan.explain(build.chain()).len() < 1 << 20);
}

#[test]
fn long_chains_and_cycles() {
    let mut build = Build::default();
    let entry = build.entry("fc");
    let mut last = entry;
    let mut all = Vec::new();
    for i in 0..3000_u32 {
        let rules = vec![Rule::new(range((i % 4 * 4) as u16, i << 16, u32::MAX - (i << 10)), 0)];
        let next = build.rules(&format!("d{i}"), rules);
        build.link(last, next);
        if i % 3 == 0 {
            let function = build.stateful(&format!("f{i}"), "frame[0]", 1);
            build.link(next, function);
            last = function;
        } else {
            last = next;
        }
        all.push(next);
    }
    build.link(last, all[0]);
    let begin = Instant::now();
    let errors = consolidate(build.chain()).unwrap_err();
    assert!(begin.elapsed() < LONGEST);
    assert!(errors[0].message.contains("more than 256 functions"), "{}", errors[0].message);
    build.forget_demands();
    let plan = plan(&build);
    assert!(assert_right(&build, &plan) > 2000);
}

#[test]
fn many_sorts_of_sessions() {
    let mut build = Build::default();
    let (entry, fork) = (build.entry("fc"), build.function("tee", Changes::Nothing));
    build.link(entry, fork);
    for i in 0..250 {
        let one = build.stateful(&format!("f{i}"), &format!("frame[{}]", i), 4);
        build.link(fork, one);
    }
    let begin = Instant::now();
    let errors = consolidate(build.chain()).unwrap_err();
    assert!(begin.elapsed() < LONGEST);
    assert!(errors[0].message.contains("more than 8 sorts of sessions"), "{}", errors[0].message);
}
