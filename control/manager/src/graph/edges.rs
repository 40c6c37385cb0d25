//! How many packets each edge carried, inferred from the counters of elements: there are none of
//! edges, which would cost each packet.

use super::view::{ChainGraph, GraphElement};

/// Fills in the packets of each edge that the counters determine.
///
/// What enters an element is the sum of what its edges carried. So an only edge carried all, and
/// where all but one are known, that one carried the rest. What leaves by the only output of an
/// element that stores nothing is what entered or was made there and did not end there. Packets
/// that an element holds for a while (a delay, fragments) so count as if they had left.
pub(super) fn count(graph: &mut ChainGraph) {
    let count = graph.elements.len();
    let (mut into, mut out_of) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (at, edge) in graph.edges.iter().enumerate() {
        into[edge.to].push(at);
        out_of[edge.from].push(at);
    }
    let stores: Vec<usize> = graph.queues.iter().map(|queue| queue.element).collect();
    for (at, edges) in out_of.iter().enumerate() {
        if let [edge] = edges[..]
            && !graph.edges[edge].is_pull
            && !stores.contains(&at)
        {
            let function = graph.functions.iter().find(|one| one.element == at);
            let left = function.map(|one| one.packets_out);
            graph.edges[edge].packets = left.or_else(|| left_by(&graph.elements[at]));
        }
    }
    for (at, edges) in into.iter().enumerate() {
        let known = edges.iter().filter_map(|edge| graph.edges[*edge].packets);
        let known = known.fold(0, u64::saturating_add);
        let mut open = edges.iter().filter(|edge| graph.edges[**edge].packets.is_none());
        let (first, second) = (open.next().copied(), open.next());
        let only = if edges.len() == 1 { edges.first().copied() } else { None };
        if let Some(edge) = only.or(first.filter(|_| second.is_none())) {
            let rest = if only.is_some() { 0 } else { known };
            // The counters are not read in one moment.
            graph.edges[edge].packets = Some(graph.elements[at].packets.saturating_sub(rest));
        }
    }
}

/// What left an element by its output 0; `None` where some left by others.
fn left_by(element: &GraphElement) -> Option<u64> {
    let is_whole = element.drops.iter().all(|drop| drop.fate != "diverted");
    let ended = element.drops.iter().map(|drop| drop.packets).fold(0, u64::saturating_add);
    let came = element.packets.saturating_add(element.made);
    is_whole.then(|| came.saturating_sub(ended))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::view::{GraphDrop, GraphEdge, GraphFunction, GraphQueue};
    use super::*;

    fn element(packets: u64, lost: u64) -> GraphElement {
        let drop = GraphDrop { reason: "bad".into(), packets: lost, fate: "lost".into() };
        let drops = if lost > 0 { vec![drop] } else { vec![] };
        GraphElement { packets, drops, ..GraphElement::default() }
    }

    fn edge(from: usize, output: usize, to: usize) -> GraphEdge {
        GraphEdge { from, output, to, ..GraphEdge::default() }
    }

    fn counted(mut graph: ChainGraph) -> Vec<Option<u64>> {
        count(&mut graph);
        graph.edges.iter().map(|edge| edge.packets).collect()
    }

    /// A classifier with one output past a function and one through it, to the same device.
    #[test]
    fn the_rest_of_what_entered_came_by_the_last_edge() {
        let elements = vec![element(100, 0), element(70, 4), element(95, 0)];
        let edges = vec![edge(0, 0, 1), edge(0, 1, 2), edge(1, 0, 2)];
        let graph = ChainGraph { elements, edges, ..ChainGraph::default() };
        assert_eq!(counted(graph.clone()), [Some(70), Some(29), Some(66)]);
        let function = GraphFunction {
            element: 1,
            state: String::new(),
            pid: 0,
            restarts: 0,
            packets_in: 70,
            packets_out: 60,
            occupancy: 6,
            slots: None,
            hangs: None,
            batches: None,
            late_batches: None,
            last_error: String::new(),
        };
        let graph = ChainGraph { functions: vec![function], ..graph };
        assert_eq!(counted(graph), [Some(70), Some(35), Some(60)], "what it says itself");
    }

    #[test]
    fn what_no_counter_tells_is_not_known() {
        let elements = vec![element(100, 0), element(100, 0)];
        let edges = vec![edge(0, 0, 1), edge(0, 1, 1)];
        assert_eq!(
            counted(ChainGraph { elements, edges, ..ChainGraph::default() }),
            [None, None],
            "two outputs to one input"
        );
    }

    #[test]
    fn a_queue_keeps_what_has_not_left() {
        let elements = vec![element(9, 2), element(4, 0)];
        let edges = vec![GraphEdge { is_pull: true, ..edge(0, 0, 1) }];
        let queues = vec![GraphQueue { element: 0, length: 3, capacity: 9, highwater: None }];
        let graph = ChainGraph { elements, edges, queues, ..ChainGraph::default() };
        assert_eq!(counted(graph), [Some(4)]);
    }

    /// A tree of elements, each with several outputs, whose leaves meet in one element: the packets
    /// of a made flow over each edge.
    fn flows() -> impl Strategy<Value = Vec<(usize, u64)>> {
        prop::collection::vec((0usize..8, 0u64..50), 1..12)
    }

    proptest! {
        /// Where an edge has a number, it is the number of packets that it carried.
        #[test]
        fn numbers_are_right(branches in flows()) {
            // Element 0 is the source; element n + 1 hangs below an earlier one; the last is the
            // sink.
            let sink = branches.len() + 1;
            let parent = |at: usize| branches[at].0 % (at + 1);
            let mut through = vec![0u64; sink + 1];
            for at in (0..branches.len()).rev() {
                through[at + 1] += branches[at].1;
                through[parent(at)] += through[at + 1];
            }
            let mut carried = Vec::new();
            let mut graph = ChainGraph::default();
            for (at, (_, own)) in branches.iter().enumerate() {
                graph.edges.push(edge(parent(at), at, at + 1));
                carried.push(through[at + 1]);
                graph.edges.push(edge(at + 1, branches.len(), sink));
                carried.push(*own);
            }
            through[sink] = branches.iter().map(|(_, own)| own).sum();
            graph.elements = through.iter().map(|packets| element(*packets, 0)).collect();
            for (found, truth) in counted(graph).into_iter().zip(carried) {
                prop_assert!(found.is_none_or(|found| found == truth), "{found:?} {truth}");
            }
        }
    }
}
