//! `bench flow`: what sessions and functions with state per session cost.
//!
//! The real engine and the real elements; packets of 64 bytes (UDP) are made from a template and a
//! session's number in front of them. Each case is measured turn by turn with its baseline, and the
//! step between them is what the goals are about where a single thing's cost is asked for. Packets
//! go in the direction that opened their session.

mod chains;
pub mod elements;
mod growth;
mod order;
mod subject;

use super::case::{Case, Goal, SetUp, Suite};
use super::traffic;
pub use elements::ELEMENTS;

use chains::{Function, apart, rewriter, together};
use order::Order;
use subject::{Known, Opening, Setting};

/// `thruway-bench flow`.
pub const SUITE: Suite = Suite {
    name: "flow",
    about: "sessions: lookup, growth, chains of functions with state, NAT, firewall, balancer",
    cases,
    reports: &[("growth", growth::report)],
};

const SIZES: [(&str, u32); 3] = [("10k", 10_000), ("1M", 1_000_000), ("10M", 10_000_000)];
const ORDERS: [(&str, Order); 2] = [("uniform", Order::Uniform), ("zipf", Order::Zipf)];
/// Sessions of chains.
const FEW: u32 = 10_000;

fn known(setting: Setting, order: Order) -> SetUp {
    Box::new(move |_| Ok(Box::new(Known::new(&setting, order)?)))
}

fn opening(setting: Setting) -> SetUp {
    Box::new(move |_| Ok(Box::new(Opening(setting.clone()))))
}

fn case(name: String, set_up: SetUp) -> Case {
    let is_long = name.contains("10M");
    Case { name, goal: None, baseline: None, steps: 1, is_long, payload: None, set_up }
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (size, sessions) in SIZES {
        for (order_name, order) in ORDERS {
            lookup_cases(&mut all, (size, sessions), (order_name, order));
        }
    }
    for (size, sessions) in SIZES {
        opening_cases(&mut all, size, sessions);
    }
    counter_cases(&mut all);
    chain_cases(&mut all);
    function_cases(&mut all);
    isolated_cases(&mut all);
    all
}

/// Finding a session: the classifier and a function that does nothing, over an element that hands
/// each packet to the same function without a session.
fn lookup_cases(all: &mut Vec<Case>, (size, sessions): (&str, u32), (name, order): (&str, Order)) {
    let pass = together(&[Function::Pass], sessions);
    let bare =
        Setting { middle: "NoSession".into(), beside: String::new(), sessions, is_isolated: false };
    all.push(case(format!("bare/{size}/{name}"), known(bare, order)));
    let goal = match size {
        "10k" => Some(Goal::StepNs(15.0)),
        "1M" => Some(Goal::StepNs(45.0)),
        _ => None,
    };
    all.push(Case {
        goal: goal.filter(|_| order == Order::Uniform),
        baseline: Some(format!("bare/{size}/{name}")),
        ..case(format!("lookup/{size}/{name}"), known(pass, order))
    });
}

/// New sessions, one per packet, from none to all.
fn opening_cases(all: &mut Vec<Case>, size: &str, sessions: u32) {
    let bare =
        Setting { middle: String::new(), beside: String::new(), sessions, is_isolated: false };
    all.push(case(format!("new/source/{size}"), opening(bare)));
    let mut add = |name: &str, function: Function, goal| {
        all.push(Case {
            goal,
            baseline: Some(format!("new/source/{size}")),
            ..case(format!("new/{name}/{size}"), opening(together(&[function], sessions)))
        });
    };
    add("pass", Function::Pass, None);
    if sessions <= 1_000_000 {
        add("nat", Function::Nat, Some(Goal::StepNs(400.0)));
    }
}

/// What one more function costs that only counts.
fn counter_cases(all: &mut Vec<Case>) {
    let of = |count: usize| together(&vec![Function::Count; count], FEW);
    all.push(case("counter/1".into(), known(of(1), Order::Uniform)));
    for count in [2, 5, 9] {
        all.push(Case {
            goal: Some(Goal::StepNs(3.0)),
            baseline: Some("counter/1".into()),
            steps: count as u32 - 1,
            ..case(format!("counter/{count}"), known(of(count), Order::Uniform))
        });
    }
}

/// A chain of one to ten functions, and the same where each classifies by itself.
fn chain_cases(all: &mut Vec<Case>) {
    let chain = Function::CHAIN;
    let bare =
        Setting { middle: String::new(), beside: String::new(), sessions: FEW, is_isolated: false };
    all.push(case("chain/0".into(), known(bare, Order::Uniform)));
    for count in 1..=chain.len() {
        all.push(Case {
            baseline: Some(format!("chain/{}", count - 1)),
            ..case(format!("chain/{count}"), known(together(&chain[..count], FEW), Order::Uniform))
        });
    }
    for count in [2, 6] {
        all.push(Case {
            goal: (count == 6).then_some(Goal::Ratio(3.0)),
            baseline: Some(format!("chain/{count}")),
            ..case(format!("apart/{count}"), known(apart(&chain[..count], FEW), Order::Uniform))
        });
    }
}

/// Functions in processes of their own. The time is that of the host's thread.
fn isolated_cases(all: &mut Vec<Case>) {
    for count in [1, 2, 4, 6, 10] {
        let functions = vec![Function::Isolated; count];
        all.push(Case {
            baseline: Some("chain/0".into()),
            steps: count as u32,
            is_long: true,
            ..case(format!("isolated/{count}"), known(together(&functions, FEW), Order::Uniform))
        });
    }
}

/// Functions that users have, alone, over the source.
fn function_cases(all: &mut Vec<Case>) {
    let works = [
        ("nat/10k", Function::Nat, FEW, 45.0),
        ("nat/1M", Function::Nat, 1_000_000, 100.0),
        ("firewall/1000-rules", Function::Firewall, FEW, 30.0),
    ];
    for (name, function, sessions, goal) in works {
        let goal = Some(Goal::Ns(goal));
        all.push(Case { goal, ..function_case(name, function, sessions) });
    }
    for (name, sessions, goal) in [("rewriter/10k", FEW, 45.0), ("rewriter/1M", 1_000_000, 120.0)] {
        let goal = Some(Goal::Ns(goal));
        let known = known(rewriter(sessions), Order::Uniform);
        all.push(Case { goal, baseline: Some("chain/0".into()), ..case(name.to_owned(), known) });
    }
    all.push(function_case("balancer/10k", Function::Balancer, FEW));
    all.push(function_case("statistics/10k", Function::Stats, FEW));
}

fn function_case(name: &str, function: Function, sessions: u32) -> Case {
    Case {
        baseline: Some("chain/0".into()),
        ..case(name.to_owned(), known(together(&[function], sessions), Order::Uniform))
    }
}
