//! Instructions and time for packets of known TCP sessions.
//!
//!     cargo run --release -p thruway-flow --example session_bench [ROUNDS]
//!
//! For instructions: `valgrind --tool=callgrind` around the built example, with ROUNDS 1000 and
//! 2000; the difference divided by 1000 rounds of 256 packets.

use std::sync::Arc;
use std::time::Instant;

use thruway_flow::chain::{Chain, Changes, Demand, Node, Role};
use thruway_flow::manager::{Input, Manager, Settings};
use thruway_flow::{SessionDef, consolidate};
use thruway_packet::{Batch, MAX_BATCH, Packet};
use thruway_wire::checksum::Sum;

const CLIENT: u32 = 0x0a00_0001;
const SERVER: u32 = 0xc0a8_0001;

fn manager() -> Manager {
    let node = |role, demand, next: Option<usize>| Node {
        name: "x".into(),
        role,
        outputs: vec![next.map(|node| (node, 0))],
        passes: vec![vec![0]],
        changes: Changes::Nothing,
        demand,
        counts: true,
    };
    let demand = SessionDef::parse("connection").map(|session| Demand::of(session, 8, 4));
    let nodes = vec![node(Role::Entry, None, Some(1)), node(Role::Function, demand.ok(), None)];
    let plan = consolidate(&Chain { nodes, early_drop: false }).expect("a plan");
    Manager::new(Arc::new(plan), &Settings::default()).expect("a manager")
}

/// A segment between two ends that begin with 0 and send nothing.
fn segment(port: u16, is_reply: bool, flags: u8) -> Packet {
    let (src, dst) = if is_reply { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
    let ports = if is_reply { [80, port] } else { [port, 80] };
    let mut tcp = [ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat();
    let (seq, ack) = (u32::from(flags & 2 == 0), u32::from(flags >> 4 & 1));
    tcp.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    tcp.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
    let sum = Sum::pseudo_v4(src, dst, 6, tcp.len()).with(&tcp).checksum();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = vec![2; 12];
    bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
    bytes.extend([src.to_be_bytes(), dst.to_be_bytes()].concat());
    bytes.extend(tcp);
    Packet::new(&bytes).expect("memory")
}

fn pass(manager: &mut Manager, batch: &mut Batch) {
    manager.classify((0, Input::Ethernet), batch, 0, |_, refusal| panic!("{refusal:?}"));
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let mut manager = manager();
    for (is_reply, flags) in [(false, 2), (true, 18), (false, 16), (true, 16), (false, 16)] {
        let mut batch = Batch::with_room();
        (0..MAX_BATCH as u16 / 2).for_each(|n| batch.push(segment(1000 + n, is_reply, flags)));
        pass(&mut manager, &mut batch);
    }
    let mut batch = Batch::with_room();
    (0..MAX_BATCH as u16).for_each(|n| batch.push(segment(1000 + n / 2, n % 2 == 1, 16)));
    let begin = Instant::now();
    for _ in 0..rounds {
        pass(&mut manager, &mut batch);
    }
    let packets = f64::from(rounds) * MAX_BATCH as f64;
    println!("{:.1} ns/packet", begin.elapsed().as_nanos() as f64 / packets);
}
