//! Which sessions of a configuration may take short cuts in the kernel, as far as that shows before
//! it runs.

use std::collections::BTreeSet;

use thruway_element::{Purpose, ShortCut};
use thruway_engine::Layout;

/// A line for each port that packets come by.
pub(super) fn explain(layout: &Layout) -> Vec<String> {
    let ports = 0..layout.graph.elements.len();
    let ports = ports.filter(|node| purpose(layout, *node) == Purpose::ReceiveFromDevice);
    ports.map(|port| line(layout, port)).collect()
}

fn purpose(layout: &Layout, node: usize) -> Purpose {
    layout.graph.elements[node].spec.purpose
}

/// The elements that a session's packets must not come to.
fn forbidding(layout: &Layout, port: usize) -> (BTreeSet<usize>, bool) {
    let (mut forbidding, mut leaves) = (BTreeSet::new(), false);
    let mut seen = BTreeSet::from([port]);
    let mut next = vec![port];
    while let Some(node) = next.pop() {
        for edge in layout.graph.edges.iter().filter(|edge| edge.from.element == node) {
            let to = edge.to.element;
            match layout.graph.elements[to].spec.short_cut {
                ShortCut::Never => {
                    forbidding.insert(to);
                }
                ShortCut::Leaves => leaves = true,
                ShortCut::Passes | ShortCut::Stores if seen.insert(to) => next.push(to),
                ShortCut::Passes | ShortCut::Stores => {}
            }
        }
    }
    (forbidding, leaves)
}

fn line(layout: &Layout, port: usize) -> String {
    let name = |node: &usize| {
        let decl = &layout.graph.elements[*node];
        format!("{} ({})", decl.name, decl.class)
    };
    let (forbidding, leaves) = forbidding(layout, port);
    let all: Vec<String> = forbidding.iter().map(name).collect();
    let port = name(&port);
    match (leaves, all.is_empty()) {
        (false, true) => format!("{port}: none, as no ToDevice follows"),
        (false, false) => format!("{port}: none, because of {}", all.join(", ")),
        (true, true) => format!("{port}: all"),
        (true, false) => format!("{port}: those that do not come to {}", all.join(", ")),
    }
}
