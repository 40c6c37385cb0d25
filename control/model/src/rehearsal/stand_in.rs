//! A configuration made fit to be run from memory: what touches the world gives way to stand-ins.

use std::collections::BTreeMap;

use thruway_element::{Catalog, Spec};
use thruway_lang::{ArgText, Edge, EdgeKind, ElementDecl, Graph, PortRef};

/// Classes whose packets come from outside of the configuration.
const RECEIVERS: &[&str] = &["FromDevice", "FromHost", "FromSocket", "KernelTap", "Socket"];
/// Classes that act by themselves on files, sockets and handlers.
const ACTORS: &[&str] = &["ChatterSocket", "ControlSocket", "PokeHandlers", "Script"];

/// Captures that come in where the configuration receives packets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Captures {
    /// Where nothing else is said.
    pub all: Option<String>,
    /// By the name of the element that receives.
    pub of: BTreeMap<String, String>,
}

impl Captures {
    fn of(&self, element: &str) -> Option<&String> {
        self.of.get(element).or(self.all.as_ref())
    }
}

/// An element that was replaced, and what it was.
#[derive(Debug, Clone, Copy)]
pub struct Replaced {
    /// Its index; it stays the same.
    pub element: usize,
    /// What it was.
    pub spec: &'static Spec,
}

/// Whether an element writes packets to a file or a device.
fn sends(decl: &ElementDecl) -> bool {
    decl.spec.name.starts_with("To") && decl.spec.ports.starts_with('1')
        || decl.spec.name == "RawSocket"
        || RECEIVERS.contains(&decl.spec.name)
}

/// Replaces what receives by captures, what sends by a sink, and stills what acts by itself.
/// `batch` packets come at a time.
///
/// # Errors
/// The name of an element that receives, and there is no capture for it.
pub fn stand_in(
    graph: &mut Graph,
    catalog: &dyn Catalog,
    captures: &Captures,
    batch: usize,
) -> Result<Vec<Replaced>, String> {
    let mut replaced = Vec::new();
    for element in 0..graph.elements.len() {
        let spec = graph.elements[element].spec;
        let leaves = graph.edges.iter().any(|edge| edge.from.element == element);
        let enters = graph.edges.iter().any(|edge| edge.to.element == element);
        if RECEIVERS.contains(&spec.name) && leaves {
            let name = &graph.elements[element].name;
            let capture = captures.of(name).ok_or_else(|| name.clone())?;
            if enters {
                divert(graph, catalog, element);
            }
            receive(graph, catalog, (element, capture), batch);
        } else if sends(&graph.elements[element]) {
            let sink = if leaves { "Null" } else { "Discard" };
            become_class(&mut graph.elements[element], catalog, sink, Vec::new());
        } else if ACTORS.contains(&spec.name) {
            become_class(&mut graph.elements[element], catalog, "Idle", Vec::new());
        } else {
            continue;
        }
        replaced.push(Replaced { element, spec });
    }
    graph.edges.sort_by_key(|edge| (edge.from, edge.to));
    Ok(replaced)
}

/// Gives an element another class and arguments.
fn become_class(decl: &mut ElementDecl, catalog: &dyn Catalog, class: &str, args: Vec<String>) {
    let Some(spec) = catalog.spec(class) else { return };
    decl.class = class.to_owned();
    decl.spec = spec;
    decl.config = args.join(", ");
    decl.args = args.into_iter().map(|text| ArgText { text, span: decl.span }).collect();
}

/// A new element beside another one; its index.
fn beside(graph: &mut Graph, element: usize, name: &str) -> usize {
    let mut decl = graph.elements[element].clone();
    decl.name = format!("{}@{name}", decl.name);
    graph.elements.push(decl);
    graph.elements.len() - 1
}

/// What enters a device that packets leave, too, ends in a sink.
fn divert(graph: &mut Graph, catalog: &dyn Catalog, element: usize) {
    let sink = beside(graph, element, "sink");
    become_class(&mut graph.elements[sink], catalog, "Discard", Vec::new());
    for edge in graph.edges.iter_mut().filter(|edge| edge.to.element == element) {
        edge.to = PortRef { element: sink, port: 0 };
    }
}

/// An element becomes the source of a capture's packets, again and again.
fn receive(
    graph: &mut Graph,
    catalog: &dyn Catalog,
    (element, capture): (usize, &str),
    batch: usize,
) {
    let trace = beside(graph, element, "trace");
    let file = thruway_element::text::quote(capture.as_bytes());
    become_class(&mut graph.elements[trace], catalog, "FromDump", vec![file]);
    let args = vec!["STOP -1".to_owned(), format!("BURST {batch}")];
    become_class(&mut graph.elements[element], catalog, "ReplayUnqueue", args);
    graph.edges.push(Edge {
        from: PortRef { element: trace, port: 0 },
        to: PortRef { element, port: 0 },
        kind: EdgeKind::Packet,
        span: graph.elements[element].span,
    });
}
