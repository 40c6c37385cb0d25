//! The wires of one thread's graph, besides where outputs lead: the slots in dispatch order, the
//! sources of pull inputs, and the elements that store packets.

use thruway_element::{Outbox, Store, Target};

/// An input port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Element index.
    pub node: u32,
    /// Input port.
    pub port: u32,
}

/// Where a pull input draws from: an output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PullFrom {
    /// Element index.
    pub node: u32,
    /// Output port.
    pub port: u32,
}

/// The inputs of one thread's elements.
#[derive(Default)]
pub(crate) struct Wires {
    /// Slots in dispatch order: topological order of the nodes.
    pub slots: Vec<Slot>,
    /// Pull inputs of all nodes, one node after the other; `None` for push or unconnected ones.
    sources: Vec<Option<PullFrom>>,
    /// Per node: its first input in `sources` (with one more entry for the end).
    first_source: Vec<u32>,
    /// Per node: the state of those that store packets.
    stores: Vec<Option<Store>>,
}

impl Wires {
    /// Of nodes with these inputs.
    pub fn new<S: IntoIterator<Item = Option<PullFrom>>>(
        slots: Vec<Slot>,
        inputs: impl IntoIterator<Item = S>,
    ) -> Wires {
        let (mut sources, mut first_source) = (Vec::new(), vec![0]);
        for own in inputs {
            sources.extend(own);
            first_source.push(sources.len() as u32);
        }
        let stores = vec![None; first_source.len() - 1];
        Wires { slots, sources, first_source, stores }
    }

    /// Inputs of a node.
    #[inline]
    pub fn inputs(&self, node: u32) -> usize {
        (self.first_source[node as usize + 1] - self.first_source[node as usize]) as usize
    }

    /// The source that pull input `port` of a node draws from.
    #[inline]
    pub fn source(&self, node: u32, port: usize) -> Option<PullFrom> {
        let first = self.first_source[node as usize] as usize;
        let end = self.first_source[node as usize + 1] as usize;
        self.sources[first..end].get(port).copied().flatten()
    }

    /// See [`thruway_element::Cx::shortcut_pull`].
    pub fn shortcut_pull(&mut self, node: u32, output: usize, input: usize) {
        let served = Some(PullFrom { node, port: output as u32 });
        let source = self.source(node, input);
        for other in &mut self.sources {
            if *other == served {
                *other = source;
            }
        }
    }

    /// Notes the state of a node that stores packets.
    #[inline]
    pub fn set_store(&mut self, node: u32, store: Store) {
        self.stores[node as usize] = Some(store);
    }

    /// The state of a node; `None` when it does not store packets.
    #[inline]
    pub fn store(&self, node: u32) -> Option<Store> {
        self.stores.get(node as usize).copied().flatten()
    }

    /// Elements that press and that packets of `node` may come to, in front of `ends`.
    pub fn pressing_downstream(&self, out: &Outbox, node: u32, ends: &[u32]) -> Vec<u32> {
        let mut seen = Vec::new();
        let mut next = node;
        for at in 0.. {
            for target in out.targets(next) {
                if let Target::Slot(slot) = target {
                    let to = self.slots[*slot as usize].node;
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
        seen.retain(|node| self.store(*node).is_some_and(|store| store.presses));
        seen
    }

    /// The nearest nodes for which `wanted` holds: upstream of the pull input `port` of `node`, or
    /// downstream of its output of that number. In order of their numbers.
    pub fn nearest(
        &self,
        out: &Outbox,
        (node, port, upstream): (u32, usize, bool),
        wanted: &dyn Fn(u32) -> bool,
    ) -> Vec<u32> {
        let next = |node: u32, port: usize| match (upstream, out.target(node, port)) {
            (true, _) => self.source(node, port).map(|from| from.node),
            (false, Target::Slot(slot)) => Some(self.slots[slot as usize].node),
            (false, _) => None,
        };
        let ports = |node| if upstream { self.inputs(node) } else { out.outputs(node) };
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

    /// See [`thruway_element::Neighbours::stores_downstream`].
    pub fn stores_downstream(&self, out: &Outbox, node: u32, port: usize) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        let mut seen = Vec::new();
        let mut paths = vec![out.target(node, port)];
        while let Some(target) = paths.pop() {
            let Target::Slot(slot) = target else { return None };
            let next = self.slots[slot as usize].node;
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            if self.store(next).is_some_and(|store| !store.passes) {
                found.push(next);
            } else if out.outputs(next) == 0 {
                return None;
            } else {
                paths.extend(out.targets(next));
            }
        }
        Some(found).filter(|found| !found.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// 0 -> 1 -> {2, 3 -> 2}, and 4 is pulled through by 5, which 6 pulls; 4 draws from 2.
    fn wires() -> (Wires, Outbox) {
        let slot = |node| Slot { node, port: 0 };
        let from = |node| vec![Some(PullFrom { node, port: 0 })];
        let inputs = [vec![], vec![None], vec![None], vec![None], from(2), from(4), from(5)];
        let outputs = [
            vec![Target::Slot(0)],
            vec![Target::Slot(1), Target::Slot(2)],
            vec![Target::Puller],
            vec![Target::Slot(1)],
            vec![Target::Puller],
            vec![Target::Puller],
            vec![],
        ];
        let wires = Wires::new(vec![slot(1), slot(2), slot(3)], inputs);
        (wires, Outbox::new(outputs, 3, Arc::default()))
    }

    fn store(presses: bool, passes: bool) -> Store {
        Store { is_full: true, presses, passes }
    }

    #[test]
    fn nearest_in_both_directions() {
        let (wires, out) = wires();
        let downstream = |wanted: &dyn Fn(u32) -> bool| wires.nearest(&out, (0, 0, false), wanted);
        assert_eq!(downstream(&|node| node >= 2), [2, 3]);
        assert_eq!(downstream(&|node| node == 2), [2]);
        assert_eq!(wires.nearest(&out, (6, 0, true), &|node| node == 2), [2]);
        assert_eq!(downstream(&|_| false), [0u32; 0]);
    }

    #[test]
    fn backpressure_up_to_an_end() {
        let (mut wires, out) = wires();
        for node in 1..4 {
            wires.set_store(node, store(node > 1, false));
        }
        assert_eq!(wires.pressing_downstream(&out, 0, &[]), [2, 3]);
        assert_eq!(wires.pressing_downstream(&out, 0, &[2]), [3]);
        assert_eq!(wires.pressing_downstream(&out, 0, &[1]), [0u32; 0]);
    }

    #[test]
    fn a_part_time_store_presses_and_is_no_store() {
        let (mut wires, out) = wires();
        wires.set_store(1, store(true, true));
        wires.set_store(2, store(false, false));
        assert_eq!(wires.stores_downstream(&out, 0, 0), Some(vec![2]));
        assert_eq!(wires.pressing_downstream(&out, 0, &[]), [1]);
    }

    #[test]
    fn pulls_are_cut_short() {
        let (mut wires, _) = wires();
        wires.shortcut_pull(5, 0, 0);
        assert_eq!(wires.source(6, 0), Some(PullFrom { node: 4, port: 0 }));
        assert_eq!(wires.source(5, 0), Some(PullFrom { node: 4, port: 0 }));
    }
}
