//! A graph for Graphviz.

use std::fmt::Write as _;

use crate::checked::{Checked, ElementPorts, Processing};
use crate::graph::{Edge, EdgeKind, Graph};

/// How connections are drawn, in DOT and SVG alike.
pub(crate) struct Stroke {
    pub color: &'static str,
    pub dashed: bool,
    pub hollow: bool,
}

/// Push is blue with a full arrow, pull is orange with a hollow one; agnostic ports on both ends
/// make it lighter, a context border dashed.
pub(crate) fn stroke(checked: &Checked, edge: &Edge) -> Stroke {
    let of =
        |ports: Option<&ElementPorts>| ports.and_then(|p| p.outputs.get(edge.from.port)).cloned();
    let from = of(checked.elements.get(edge.from.element));
    let to = checked.elements.get(edge.to.element).and_then(|p| p.inputs.get(edge.to.port));
    let agnostic =
        from.as_ref().is_some_and(|port| port.agnostic) && to.is_some_and(|p| p.agnostic);
    let pull = from.is_some_and(|port| port.processing == Processing::Pull);
    let color = match (pull, agnostic) {
        (false, false) => "#1f5fa8",
        (false, true) => "#7fa8d8",
        (true, false) => "#c05a00",
        (true, true) => "#e0a060",
    };
    Stroke { color, dashed: edge.kind == EdgeKind::Context, hollow: pull }
}

/// DOT text: a box per element with its ports, compound elements as clusters.
pub fn dot(graph: &Graph, checked: &Checked) -> String {
    let mut out = String::from(
        "digraph configuration {\n  rankdir=TB;\n  \
         node [shape=plaintext, fontname=\"sans-serif\"];\n",
    );
    let mut open: Vec<&str> = Vec::new();
    let mut order: Vec<usize> = (0..graph.elements.len()).collect();
    order.sort_by_key(|index| cluster(graph, *index));
    for index in order {
        let path = cluster(graph, index);
        let common = open.iter().zip(&path).take_while(|(a, b)| a == b).count();
        while open.len() > common {
            open.pop();
            let _ = writeln!(out, "{}}}", indent(open.len()));
        }
        for name in &path[common..] {
            let pad = indent(open.len());
            let _ = writeln!(out, "{pad}subgraph {} {{", string(&format!("cluster {name}")));
            let _ =
                writeln!(out, "{pad}  label={}; style=rounded; color=\"#999999\";", string(name));
            open.push(name);
        }
        let _ = writeln!(
            out,
            "{}e{index} [label={}];",
            indent(open.len()),
            label(graph, checked, index)
        );
    }
    while open.pop().is_some() {
        let _ = writeln!(out, "{}}}", indent(open.len()));
    }
    for edge in &graph.edges {
        let stroke = stroke(checked, edge);
        let _ = writeln!(
            out,
            "  e{}:o{}:s -> e{}:i{}:n [color=\"{}\"{}{}];",
            edge.from.element,
            edge.from.port,
            edge.to.element,
            edge.to.port,
            stroke.color,
            if stroke.hollow { ", arrowhead=empty" } else { "" },
            if stroke.dashed { ", style=dashed" } else { "" },
        );
    }
    out.push_str("}\n");
    out
}

/// Names of the compound elements around an element, outermost first.
fn cluster(graph: &Graph, index: usize) -> Vec<&str> {
    graph.elements[index].context.iter().rev().map(|frame| frame.name.as_str()).collect()
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth + 1)
}

fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A table: inputs above, name and class, outputs below.
fn label(graph: &Graph, checked: &Checked, index: usize) -> String {
    let element = &graph.elements[index];
    let row = |letter: char, count: usize| -> String {
        let cell =
            |port| format!("<TD PORT=\"{letter}{port}\"><FONT POINT-SIZE=\"8\">{port}</FONT></TD>");
        match count {
            0 => String::new(),
            _ => {
                let cells: String = (0..count).map(cell).collect();
                let table =
                    "<TABLE BORDER=\"0\" CELLBORDER=\"1\" CELLSPACING=\"0\" CELLPADDING=\"1\">";
                format!("<TR><TD>{table}<TR>{cells}</TR></TABLE></TD></TR>")
            }
        }
    };
    let ports = checked.elements.get(index);
    let inputs = row('i', ports.map_or(0, |ports| ports.inputs.len()));
    let outputs = row('o', ports.map_or(0, |ports| ports.outputs.len()));
    format!(
        "<<TABLE BORDER=\"1\" CELLBORDER=\"0\" CELLSPACING=\"0\">{inputs}<TR><TD><B>{}</B><BR/>{}\
         </TD></TR>{outputs}</TABLE>>",
        escape(&element.name),
        escape(&element.class)
    )
}

/// Text for HTML-like labels and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
