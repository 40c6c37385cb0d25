//! A graph as a configuration text: what `click-flatten` and the `flatconfig` handler print.

use std::fmt::Write as _;

use crate::graph::{EdgeKind, Graph, PortRef};

/// Requirements, declarations, then connections in chains.
pub fn unparse(graph: &Graph) -> String {
    let mut out = String::new();
    if !graph.requirements.is_empty() {
        let list: Vec<String> = graph.requirements.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "require({});\n", list.join(", "));
    }
    for element in &graph.elements {
        let _ = write!(out, "{} :: {}", element.name, element.class);
        if !element.config.is_empty() {
            let _ = write!(out, "({})", element.config);
        }
        out.push_str(";\n");
    }
    if !graph.elements.is_empty() {
        out.push('\n');
    }
    connections(graph, &mut out);
    out
}

/// An edge goes on a chain's end if it leaves the element that the chain's last edge enters, and
/// that edge enters at port 0 (so that the element stands alone between its connectors).
fn connections(graph: &Graph, out: &mut String) {
    let next = followers(graph);
    let mut follows = vec![false; graph.edges.len()];
    next.iter().flatten().for_each(|edge| follows[*edge] = true);
    let mut printed = vec![false; graph.edges.len()];
    // In Click's order, that of the inputs. Chains from their beginnings, then what is left: loops.
    let mut order: Vec<usize> = (0..graph.edges.len()).collect();
    order.sort_by_key(|edge| (graph.edges[*edge].to, graph.edges[*edge].from));
    let starts: Vec<usize> = order.iter().copied().filter(|edge| !follows[*edge]).collect();
    for start in starts.into_iter().chain(order) {
        if printed[start] {
            continue;
        }
        out.push_str(&graph.elements[graph.edges[start].from.element].name);
        let mut at = Some(start);
        while let Some(edge) = at.filter(|edge| !printed[*edge]) {
            printed[edge] = true;
            let separator = if edge == start { " " } else { "\n    " };
            connector(graph, edge, separator, out);
            at = next[edge];
        }
        out.push_str(";\n");
    }
}

fn connector(graph: &Graph, edge: usize, separator: &str, out: &mut String) {
    let edge = &graph.edges[edge];
    if edge.from.port > 0 {
        let _ = write!(out, " [{}]", edge.from.port);
    }
    let arrow = match edge.kind {
        EdgeKind::Packet => "->",
        EdgeKind::Context => "~>",
    };
    let _ = write!(out, "{separator}{arrow} ");
    if edge.to.port > 0 {
        let _ = write!(out, "[{}] ", edge.to.port);
    }
    out.push_str(&graph.elements[edge.to.element].name);
}

/// Per edge the edge that its chain goes on with: of those that leave where it enters, the first
/// that enters at port 0 itself, else the last.
fn followers(graph: &Graph) -> Vec<Option<usize>> {
    let follower = |port: PortRef| {
        let first = graph.edges.partition_point(|edge| edge.from < port);
        let last = graph.edges.partition_point(|edge| edge.from <= port);
        let goes_on = |index: &usize| graph.edges[*index].to.port == 0;
        (first..last).find(goes_on).or((first < last).then_some(last.saturating_sub(1)))
    };
    let next = graph.edges.iter().enumerate().map(|(index, edge)| {
        let next = (edge.to.port == 0).then(|| follower(edge.to)).flatten();
        next.filter(|next| *next != index)
    });
    next.collect()
}

#[cfg(test)]
mod tests {
    use crate::tests::catalog::graph;

    #[test]
    fn flat_text() {
        let text =
            "require(package p); b :: Any; a :: Any(1, x) -> { input -> Null -> output } -> b;
            a[1] -> [1]b; b ~> [2]b";
        assert_eq!(
            super::unparse(&graph(text)),
            "require(package \"p\");\n\nb :: Any;\na :: Any(1, x);\n@3/Null@1 :: Null;\n\
             FlowDispatcher@4 :: FlowDispatcher;\n\n\
             a [1] -> [1] b;\na -> @3/Null@1\n    -> b\n    ~> FlowDispatcher@4\n    ~> [2] b;\n"
        );
    }
}
