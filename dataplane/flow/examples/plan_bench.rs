//! Nanoseconds per packet (of the best round) of `Plan::classify`, for the chain of figure 5.6 in
//! "A high-speed NFV dataplane" (ARP, TCP port 80, UDP), over packets in random order.
//!
//! `cargo run --release -p thruway-flow --example plan_bench`
//!
//! Recorded 2026-11-22 (about 3 GHz, x86-64-v3, two cores shared with other builds): 10 ns for HTTP
//! alone and for the mix (HTTP takes five steps, UDP four, ARP three), 27 ns for the rules walked
//! one by one.
use std::hint::black_box;
use std::time::Instant;
use thruway_flow::chain::{Chain, Changes, Node, Role};
use thruway_flow::{NoNames, PacketView, Rule, consolidate, evaluate_naive, parse_class};

const PACKETS: usize = 16_384;
const ROUNDS: u32 = 200;

fn node(name: &str, role: Role, outputs: &[usize]) -> Node {
    Node {
        name: name.to_owned(),
        role,
        outputs: outputs.iter().map(|to| Some((*to, 0))).collect(),
        passes: vec![(0..outputs.len()).collect()],
        changes: Changes::Nothing,
        demand: None,
        counts: false,
    }
}

fn dispatcher(name: &str, classes: &[&str], outputs: &[usize]) -> Node {
    let rules = classes.iter().enumerate().map(|(output, class)| {
        Rule::new(parse_class(class, &NoNames).expect("a class"), output as u32)
    });
    node(name, Role::Dispatcher(rules.collect()), outputs)
}

fn frame(kind: u32) -> Vec<u8> {
    let mut frame = vec![0; 12];
    if kind == 0 {
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    } else {
        let (protocol, port) = if kind == 1 { (17, 53) } else { (6, 80) };
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0, port]);
    }
    frame.resize(60, 0);
    frame
}

fn time(what: &str, frames: &[Vec<u8>], classify: impl Fn(&PacketView<'_>) -> u32) {
    let mut sum = 0_u64;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for frame in frames {
            let view = PacketView { frame, network: &frame[14..], transport: &frame[34..] };
            sum += u64::from(classify(black_box(&view)));
        }
        best = best.min(begin.elapsed().as_nanos() as f64);
    }
    let each = best / frames.len() as f64;
    println!("{what:40} {each:6.1} ns/packet (sum {sum})");
}

fn main() {
    let chain = Chain {
        nodes: vec![
            node("fc", Role::Entry, &[1]),
            dispatcher("ct", &["12/0800", "12/0806 20/0001", "12/0806 20/0002"], &[2, 4, 4]),
            dispatcher("cp", &["tcp", "udp", "-"], &[3, 4]),
            dispatcher("cd", &["tcp dst port 80"], &[4]),
            node("end", Role::Function, &[]),
        ],
        early_drop: true,
    };
    let plan = consolidate(&chain).expect("a plan");
    let rules = |at: usize| match &chain.nodes[at].role {
        Role::Dispatcher(rules) => rules.as_slice(),
        _ => &[],
    };
    let random = |i: usize| (i as u32).wrapping_mul(0x9e37_79b1) >> 20;
    let mixed: Vec<Vec<u8>> = (0..PACKETS).map(|i| frame(random(i) % 16)).collect();
    let http: Vec<Vec<u8>> = (0..PACKETS).map(|_| frame(2)).collect();
    for (what, frames) in [("mostly HTTP, mixed", &mixed), ("HTTP", &http)] {
        time(&format!("{what}: plan"), frames, |view| u32::from(plan.classify(0, view)));
        time(&format!("{what}: the rules, walked"), frames, |view| {
            match evaluate_naive(rules(1), view) {
                0 => match evaluate_naive(rules(2), view) {
                    0 => evaluate_naive(rules(3), view),
                    other => other,
                },
                other => other,
            }
        });
    }
}
