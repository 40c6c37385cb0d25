//! The wires between nodes: where an output leads, and the batches that wait at inputs.
//!
//! Every input port of every node is a *slot*, numbered in topological order of the nodes. In
//! *vector* mode packets wait in their slot's pending batch until the engine dispatches the lowest
//! ready slot, so paths that join fill one batch. In *single* mode (one packet in flight) each
//! packet goes depth first, in the order in which it was sent, as in Click.

use std::sync::Arc;

use thruway_flow::manager::Manager;
use thruway_packet::{Batch, Packet};

use crate::handoff::Staged;
use crate::probe::Probe;
use crate::stats::Stats;

/// An input port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Element index.
    pub node: u32,
    /// Input port.
    pub port: u32,
}

/// Where an output leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To the slot of this number.
    Slot(u32),
    /// Back to the puller (the output is a pull port).
    Puller,
    /// Nowhere.
    Unconnected,
}

/// Where a pull input draws from: an output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullFrom {
    /// Element index.
    pub node: u32,
    /// Output port.
    pub port: u32,
}

/// Which elements store packets, and whether they are full.
#[derive(Debug, Default)]
pub struct Stores(Vec<Option<Store>>);

/// The known state of an element that stores packets.
#[derive(Debug, Clone, Copy)]
struct Store {
    is_full: bool,
    /// Whether a full store applies backpressure to upstream elements that can pause.
    presses: bool,
    /// Whether packets pass it at other times: those behind it store them.
    passes: bool,
}

impl Stores {
    #[inline]
    pub(crate) fn set(&mut self, node: u32, is_full: bool, presses: bool) {
        self.put(node, Store { is_full, presses, passes: false });
    }

    /// The same of an element that presses and stores packets now and then only.
    pub(crate) fn set_passing(&mut self, node: u32, is_full: bool) {
        self.put(node, Store { is_full, presses: true, passes: true });
    }

    #[inline]
    fn put(&mut self, node: u32, store: Store) {
        let at = node as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(store);
    }

    /// Whether a node is full; `None` when it does not store packets.
    #[inline]
    pub(crate) fn get(&self, node: u32) -> Option<bool> {
        self.0.get(node as usize).copied().flatten().map(|store| store.is_full)
    }

    /// Whether packets stay there.
    fn keeps(&self, node: u32) -> bool {
        self.0.get(node as usize).copied().flatten().is_some_and(|store| !store.passes)
    }

    fn presses(&self, node: u32) -> bool {
        self.0.get(node as usize).copied().flatten().is_some_and(|store| store.presses)
    }
}

/// The wiring of one thread's graph and the packets on it.
#[derive(Default)]
pub struct Wires {
    /// Slots in dispatch order.
    pub slots: Vec<Slot>,
    /// Outputs of all nodes, one node after the other.
    pub targets: Vec<Target>,
    /// Per node: its first output in `targets` (with one more entry for the end).
    pub first_target: Vec<u32>,
    /// Pull inputs of all nodes, one node after the other; `None` for push or unconnected ones.
    pub sources: Vec<Option<PullFrom>>,
    /// Per node: its first input in `sources` (with one more entry for the end).
    pub first_source: Vec<u32>,
    /// Per slot: packets that wait.
    pub pending: Vec<Batch>,
    /// Per slot a bit: packets wait.
    pub ready: Vec<u64>,
    /// In single mode: packets sent and not yet dispatched, newest last.
    pub log: Vec<(u32, Packet)>,
    /// Whether one packet is in flight.
    pub single: bool,
    /// Packets put on a slot since the engine last looked.
    pub emitted: u32,
    /// Packets sent to a pull output while it is being pulled.
    pub returned: Batch,
    /// Elements that store packets.
    pub stores: Stores,
    /// The flow manager, where the configuration has one; taken out while it works.
    pub flows: Option<Box<Manager>>,
    /// The probe in flight.
    pub probe: Option<Box<Probe>>,
    /// Packets for other threads, while their element looks at the rest of a batch.
    pub staged: Staged,
    /// Counters by element index.
    pub stats: Arc<Stats>,
    /// Present time, nanoseconds since the Unix epoch.
    pub now: i64,
}

impl Wires {
    /// Sends a packet to the target of an output.
    ///
    /// # Errors
    /// The packet, where that is nowhere.
    #[inline]
    pub fn send(&mut self, target: Target, packet: Packet) -> Result<(), Packet> {
        match target {
            Target::Slot(slot) if self.single => self.log.push((slot, packet)),
            Target::Slot(slot) => {
                self.emitted += 1;
                self.mark_ready(slot);
                self.pending[slot as usize].push(packet);
            }
            Target::Puller => self.returned.push(packet),
            Target::Unconnected => return Err(packet),
        }
        Ok(())
    }

    /// The same for a whole batch, which is left empty.
    #[inline]
    pub(crate) fn send_all(&mut self, target: Target, batch: &mut Batch) -> Result<(), ()> {
        match target {
            // A slot that is ready has a packet: the engine relies on that when one is in flight.
            Target::Slot(_) if batch.is_empty() => {}
            Target::Slot(slot) if self.single => {
                self.log.extend(batch.drain().map(|packet| (slot, packet)));
            }
            Target::Slot(slot) => {
                self.emitted += batch.len() as u32;
                self.mark_ready(slot);
                self.pending[slot as usize].append(batch);
            }
            Target::Puller => self.returned.append(batch),
            Target::Unconnected => return Err(()),
        }
        Ok(())
    }

    /// Whether no packet is in flight.
    pub fn is_quiet(&self) -> bool {
        self.ready.iter().all(|word| *word == 0) && self.log.is_empty() && !self.single
    }

    #[inline]
    fn mark_ready(&mut self, slot: u32) {
        self.ready[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// Takes the lowest ready slot off the ready set.
    #[inline]
    pub fn next_ready(&mut self) -> Option<usize> {
        for (at, word) in self.ready.iter_mut().enumerate() {
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(at * 64 + bit);
            }
        }
        None
    }

    /// Outputs of a node.
    #[inline]
    pub fn outputs(&self, node: u32) -> usize {
        (self.first_target[node as usize + 1] - self.first_target[node as usize]) as usize
    }

    /// Inputs of a node.
    #[inline]
    pub fn inputs(&self, node: u32) -> usize {
        (self.first_source[node as usize + 1] - self.first_source[node as usize]) as usize
    }

    /// Where output `port` of a node leads.
    #[inline]
    pub fn target(&self, node: u32, port: usize) -> Target {
        let first = self.first_target[node as usize] as usize;
        let end = self.first_target[node as usize + 1] as usize;
        match self.targets[first..end].get(port) {
            Some(target) => *target,
            None => Target::Unconnected,
        }
    }

    /// The source that pull input `port` of a node draws from.
    #[inline]
    pub fn source(&self, node: u32, port: usize) -> Option<PullFrom> {
        let first = self.first_source[node as usize] as usize;
        let end = self.first_source[node as usize + 1] as usize;
        self.sources[first..end].get(port).copied().flatten()
    }

    /// Elements that press and that packets of `node` may come to, in front of `ends`.
    pub(crate) fn pressing_downstream(&self, node: u32, ends: &[u32]) -> Vec<u32> {
        let mut seen = Vec::new();
        let mut next = node;
        for at in 0.. {
            for port in 0..self.outputs(next) {
                if let Target::Slot(slot) = self.target(next, port) {
                    let to = self.slots[slot as usize].node;
                    if !seen.contains(&to) && !ends.contains(&to) {
                        seen.push(to);
                    }
                }
            }
            match seen.get(at) {
                Some(found) => next = *found,
                None => break,
            }
        }
        seen.retain(|node| self.stores.presses(*node));
        seen
    }

    /// See [`crate::Cx::shortcut_pull`].
    pub(crate) fn shortcut_pull(&mut self, node: u32, output: usize, input: usize) {
        let served = Some(PullFrom { node, port: output as u32 });
        let source = self.source(node, input);
        for other in &mut self.sources {
            if *other == served {
                *other = source;
            }
        }
    }

    /// The nearest nodes for which `wanted` holds: upstream of the pull input `port` of `node`, or
    /// downstream of its output of that number. In order of their numbers.
    pub(crate) fn nearest(
        &self,
        (node, port): (u32, usize),
        upstream: bool,
        wanted: &dyn Fn(u32) -> bool,
    ) -> Vec<u32> {
        let next = |node: u32, port: usize| match (upstream, self.target(node, port)) {
            (true, _) => self.source(node, port).map(|from| from.node),
            (false, Target::Slot(slot)) => Some(self.slots[slot as usize].node),
            (false, _) => None,
        };
        let ports = |node| if upstream { self.inputs(node) } else { self.outputs(node) };
        let (mut found, mut seen) = (Vec::new(), vec![node]);
        let mut paths: Vec<u32> = next(node, port).into_iter().collect();
        while let Some(node) = paths.pop() {
            if seen.contains(&node) {
                continue;
            }
            seen.push(node);
            if wanted(node) {
                found.push(node);
            } else {
                paths.extend((0..ports(node)).filter_map(|port| next(node, port)));
            }
        }
        found.sort_unstable();
        found
    }

    /// See [`crate::Cx::stores_downstream`].
    pub(crate) fn stores_downstream(&self, node: u32, port: usize) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        let mut seen = Vec::new();
        let mut paths = vec![self.target(node, port)];
        while let Some(target) = paths.pop() {
            let Target::Slot(slot) = target else { return None };
            let next = self.slots[slot as usize].node;
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            if self.stores.keeps(next) {
                found.push(next);
            } else if self.outputs(next) == 0 {
                return None;
            } else {
                paths.extend((0..self.outputs(next)).map(|port| self.target(next, port)));
            }
        }
        Some(found).filter(|found| !found.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 -> 1 -> {2, 3 -> 2}, and 4 is pulled through by 5, which 6 pulls; 4 draws from 2.
    fn wires() -> Wires {
        let slot = |node| Slot { node, port: 0 };
        let from = |node| Some(PullFrom { node, port: 0 });
        Wires {
            slots: vec![slot(1), slot(2), slot(3)],
            targets: vec![
                Target::Slot(0),
                Target::Slot(1),
                Target::Slot(2),
                Target::Puller,
                Target::Slot(1),
                Target::Puller,
                Target::Puller,
            ],
            first_target: vec![0, 1, 3, 4, 5, 6, 7, 7],
            sources: vec![None, None, None, from(2), from(4), from(5)],
            first_source: vec![0, 0, 1, 2, 3, 4, 5, 6],
            ..Wires::default()
        }
    }

    #[test]
    fn nearest_in_both_directions() {
        let wires = wires();
        assert_eq!(wires.nearest((0, 0), false, &|node| node >= 2), [2, 3]);
        assert_eq!(wires.nearest((0, 0), false, &|node| node == 2), [2]);
        assert_eq!(wires.nearest((6, 0), true, &|node| node == 2), [2]);
        assert_eq!(wires.nearest((0, 0), false, &|_| false), [0u32; 0]);
    }

    #[test]
    fn backpressure_up_to_an_end() {
        let mut wires = wires();
        for node in 1..4 {
            wires.stores.set(node, true, node > 1);
        }
        assert_eq!(wires.pressing_downstream(0, &[]), [2, 3]);
        assert_eq!(wires.pressing_downstream(0, &[2]), [3]);
        assert_eq!(wires.pressing_downstream(0, &[1]), [0u32; 0]);
    }

    #[test]
    fn a_part_time_store_presses_and_is_no_store() {
        let mut wires = wires();
        wires.stores.set_passing(1, false);
        wires.stores.set(2, false, false);
        assert_eq!(wires.stores_downstream(0, 0), Some(vec![2]));
        assert_eq!(wires.pressing_downstream(0, &[]), [1]);
    }

    #[test]
    fn an_empty_batch_makes_no_slot_ready() {
        let mut wires = Wires {
            pending: vec![Batch::new(), Batch::new(), Batch::new()],
            ready: vec![0],
            ..wires()
        };
        wires.send_all(Target::Slot(1), &mut Batch::new()).unwrap();
        assert!(wires.is_quiet());
        wires.send(Target::Slot(2), Packet::new(&[1]).unwrap()).unwrap();
        assert_eq!((wires.emitted, wires.next_ready()), (1, Some(2)));
    }

    #[test]
    fn pulls_are_cut_short() {
        let mut wires = wires();
        wires.shortcut_pull(5, 0, 0);
        assert_eq!(wires.source(6, 0), Some(PullFrom { node: 4, port: 0 }));
        assert_eq!(wires.source(5, 0), Some(PullFrom { node: 4, port: 0 }));
    }
}
