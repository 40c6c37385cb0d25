//! Figures that elements publish for monitoring without commands to packet threads: the handler
//! `figures`.
//!
//! Each thread writes its elements' figures once in [`PERIOD_NS`], before a round. A reader sees
//! each figure as it was a moment ago; two figures may be of different moments.
//!
//! PERF: a round compares two numbers in registers or in the first-level cache; a packet costs
//! nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use thruway_element::{Facts, Merge, Publisher};
use thruway_sync::Counter;

use crate::build::Elements;
use crate::layout::Layout;

/// Time between two publications of a thread, nanoseconds. A sleeping thread publishes when it
/// next wakes, at most a tenth of a second later.
pub(crate) const PERIOD_NS: i64 = 200_000_000;

/// Most figures of an element; the rest is not published.
pub(crate) const FIGURES_MAX: usize = 16;

/// The figures of an element in one thread, which writes them; anyone reads.
pub(crate) struct NodeFigures {
    pub node: usize,
    names: &'static [&'static str],
    pub values: Box<[Counter]>,
}

/// The figures of all elements of one thread.
pub(crate) type ThreadFigures = Arc<[NodeFigures]>;

/// Facts about elements, by their index.
pub(crate) type NodeFacts = Vec<(usize, Arc<dyn Facts>)>;

/// Of a thread with these elements: nothing published yet.
pub(crate) fn of(layout: &Layout, elements: &Elements) -> ThreadFigures {
    let of_node = |node: usize| {
        let names = publisher(layout, elements, node)?.figures();
        let names = &names[..names.len().min(FIGURES_MAX)];
        let values = names.iter().map(|_| Counter::new()).collect();
        Some(NodeFigures { node, names, values })
    };
    (0..elements.len()).filter_map(of_node).collect()
}

/// An element as a publisher, if it is one.
pub(crate) fn publisher<'a>(
    layout: &Layout,
    elements: &'a Elements,
    node: usize,
) -> Option<&'a dyn Publisher> {
    layout.entries[node]?.publisher(elements[node].as_deref()?)
}

/// A line each, its words separated by tabs:
///
/// - `figure NAME FIGURE VALUE`: what element NAME has published, over all threads;
/// - `fact NAME FACT TEXT`: what is known of the process that works for element NAME, in one line.
pub(crate) fn lines(
    layout: &Layout,
    threads: &[ThreadFigures],
    facts: &[(usize, Arc<dyn Facts>)],
) -> String {
    let mut text = String::new();
    for (node, decl) in layout.graph.elements.iter().enumerate() {
        // Sorted by element, as they were made.
        let find = |thread: &ThreadFigures| thread.binary_search_by_key(&node, |one| one.node).ok();
        let replicas: Vec<&NodeFigures> =
            threads.iter().filter_map(|thread| thread.get(find(thread)?)).collect();
        let Some(first) = replicas.first() else { continue };
        for (at, figure) in first.names.iter().enumerate() {
            let values = replicas.iter().filter_map(|one| one.values.get(at)).map(Counter::get);
            let value = match decl.spec.handler(figure).map(|handler| handler.merge) {
                Some(Merge::Sum) => values.fold(0, u64::saturating_add),
                _ => values.take(1).sum(),
            };
            let _ = writeln!(text, "figure\t{}\t{figure}\t{value}", decl.name);
        }
    }
    for (node, facts) in facts {
        let name = &layout.graph.elements[*node].name;
        for (fact, value) in facts.facts() {
            let value = value.replace(char::is_control, " ");
            let _ = writeln!(text, "fact\t{name}\t{fact}\t{}", value.trim_end());
        }
    }
    text
}
