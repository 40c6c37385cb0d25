//! The reference path: from element to element, each looking at the packet itself.

use std::collections::{HashMap, HashSet};
use thruway_flow::chain::{Chain, Changes, Role};
use thruway_flow::evaluate_naive;
use thruway_flow::plan::Hop;

use crate::packets::Packet;

/// What a packet comes to.
#[derive(Default)]
pub struct SharedRecord {
    /// Dispatchers with all that they decided (a packet may come twice, changed).
    pub dispatchers: HashMap<usize, Vec<Hop>>,
    /// Elements with a demand that it comes to while it is the packet that was classified.
    pub functions: HashSet<usize>,
    /// Whether anybody wants or counts it.
    pub wanted: bool,
}

/// The packet behind an element that changes it: other bytes where it may write.
fn changed(packet: &Packet, changes: Changes) -> Packet {
    let mut packet = packet.clone();
    let from = match changes {
        Changes::Nothing => return packet,
        Changes::Frame => 0..packet.network.min(packet.frame.len()),
        Changes::Headers | Changes::Everything => 0..packet.frame.len(),
    };
    packet.frame[from].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7).wrapping_add(3));
    packet
}

pub fn walk(chain: &Chain, entry: usize, packet: &Packet) -> SharedRecord {
    let mut shared = SharedRecord::default();
    let mut been = HashSet::new();
    let mut next: Vec<(usize, usize, Changes)> = Vec::new();
    let leave = |node: usize, output: usize, so_far: Changes| {
        chain.nodes[node].outputs.get(output)?.map(|(to, input)| (to, input, so_far))
    };
    next.extend(
        (0..chain.nodes[entry].outputs.len()).filter_map(|o| leave(entry, o, Changes::Nothing)),
    );
    while let Some((at, input, so_far)) = next.pop() {
        if !been.insert((at, input, so_far)) {
            continue;
        }
        let node = &chain.nodes[at];
        shared.wanted |= node.counts;
        let asks = node.demand.is_some() && so_far < Changes::Everything;
        let behind = so_far.max(node.changes);
        match &node.role {
            Role::Entry => shared.wanted = true,
            Role::Function => {
                let outputs = &node.passes[input];
                shared.wanted |= outputs.is_empty() || node.demand.is_some();
                shared.functions.extend(asks.then_some(at));
                next.extend(outputs.iter().filter_map(|output| leave(at, *output, behind)));
            }
            Role::Dispatcher(rules) => {
                let verdict = evaluate_naive(rules, &changed(packet, so_far).view()) as usize;
                let known = verdict < node.outputs.len();
                // What is dropped needs no session.
                shared.functions.extend((asks && known).then_some(at));
                let hop = if known { Hop::Output(verdict as u16) } else { Hop::Drop };
                shared.dispatchers.entry(at).or_default().push(hop);
                next.extend(leave(at, verdict, behind));
            }
        }
    }
    shared
}
