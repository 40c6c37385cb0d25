//! Prepares a configuration to run from memory: replaces elements with external effects.

use std::collections::BTreeMap;

use thruway_element::{Arg, ArgRule, Catalog, Spec, Ty};
use thruway_lang::{ArgText, Edge, EdgeKind, ElementDecl, Graph, PortRef};

/// Classes with packets from outside of the configuration.
const RECEIVERS: &[&str] = &["FromDevice", "FromHost", "KernelTap", "RawSocket", "Socket"];
/// Classes that act by themselves on files, sockets and handlers.
const ACTORS: &[&str] = &["ChatterSocket", "ControlSocket", "PokeHandlers", "Script"];

/// Where packets come from that the configuration receives.
#[derive(Debug, Clone, PartialEq)]
pub enum Trace {
    /// A capture's path.
    Capture(String),
    /// Lines as FromIPSummaryDump reads them.
    Lines(String),
}

/// What comes in where the configuration receives packets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Captures {
    /// Where nothing else is said.
    pub all: Option<Trace>,
    /// By the name of the element that receives.
    pub of: BTreeMap<String, Trace>,
}

impl Captures {
    fn of(&self, element: &str) -> Option<&Trace> {
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
        if spec.name == "FromDump" && !feeds_replay(graph, element) {
            replay(graph, catalog, element, batch);
        } else if RECEIVERS.contains(&spec.name) && leaves {
            let name = &graph.elements[element].name;
            let trace = captures.of(name).cloned().ok_or_else(|| name.clone())?;
            if enters {
                divert(graph, catalog, element);
            }
            receive(graph, catalog, (element, &trace), batch);
        } else if sends(&graph.elements[element]) {
            // A sink that pulls takes as many at a time as a device does.
            let (sink, args) = if leaves {
                ("Null", Vec::new())
            } else {
                ("Discard", vec![format!("BURST {batch}")])
            };
            become_class(&mut graph.elements[element], catalog, sink, args);
        } else if ACTORS.contains(&spec.name) {
            become_class(&mut graph.elements[element], catalog, "Idle", Vec::new());
        } else {
            write_nowhere(&mut graph.elements[element]);
            continue;
        }
        replaced.push(Replaced { element, spec });
    }
    graph.edges.sort_by_key(|edge| (edge.from, edge.to));
    Ok(replaced)
}

/// What an element would write to files goes nowhere.
fn write_nowhere(decl: &mut ElementDecl) {
    let args = decl.spec.args;
    let writes = |arg: &Arg| arg.ty == Ty::OutFile;
    if !args.iter().any(writes) {
        return;
    }
    let mut positional = args.iter().filter(|arg| is_positional(arg));
    for given in &mut decl.args {
        let word = given.text.split_whitespace().next().unwrap_or_default();
        if let Some(arg) = args.iter().find(|arg| arg.name == word) {
            if writes(arg) {
                given.text = format!("{word} {NOWHERE}");
            }
        } else if positional.next().is_some_and(writes) {
            given.text = NOWHERE.to_owned();
        }
    }
}

fn is_positional(arg: &Arg) -> bool {
    matches!(arg.rule, ArgRule::Required | ArgRule::Optional | ArgRule::Rest)
}

/// A file that takes everything and keeps nothing.
const NOWHERE: &str = "/dev/null";

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

/// An element becomes the source of a trace's packets, again and again.
fn receive(
    graph: &mut Graph,
    catalog: &dyn Catalog,
    (element, trace): (usize, &Trace),
    batch: usize,
) {
    let quoted = |text: &str| thruway_element::text::quote(text.as_bytes());
    match trace {
        Trace::Capture(path) => {
            become_class(&mut graph.elements[element], catalog, "FromDump", vec![quoted(path)]);
            replay(graph, catalog, element, batch);
        }
        Trace::Lines(lines) => {
            let frames = FRAMES.map(str::to_owned).to_vec();
            become_class(&mut graph.elements[element], catalog, "EtherEncap", frames);
            let encap = replay(graph, catalog, element, batch);
            let made = beside(graph, element, "lines");
            let data = vec![format!("DATA {}", quoted(lines)), "CHECKSUM true".to_owned()];
            become_class(&mut graph.elements[made], catalog, "FromIPSummaryDump", data);
            connect(graph, made, encap);
        }
    }
}

/// Arguments of EtherEncap for packets that were only described.
const FRAMES: [&str; 3] = ["0x0800", "02:00:00:00:00:01", "02:00:00:00:00:02"];

/// Output 0 to input 0.
fn connect(graph: &mut Graph, from: usize, to: usize) {
    let [from, to] = [from, to].map(|element| PortRef { element, port: 0 });
    let span = graph.elements[from.element].span;
    graph.edges.push(Edge { from, to, kind: EdgeKind::Packet, span });
}

/// Whether what an element reads is kept in memory already.
fn feeds_replay(graph: &Graph, element: usize) -> bool {
    let mut next = graph.edges.iter().filter(|edge| edge.from.element == element);
    next.any(|edge| graph.elements[edge.to.element].spec.name == "ReplayUnqueue")
}

/// An element becomes a ReplayUnqueue of what it was; the index of what it was.
fn replay(graph: &mut Graph, catalog: &dyn Catalog, element: usize, batch: usize) -> usize {
    let trace = beside(graph, element, "trace");
    // The end of the capture is no reason to stop any more.
    graph.elements[trace].args.retain(|arg| !arg.text.starts_with("STOP"));
    let args = vec!["STOP -1".to_owned(), format!("BURST {batch}")];
    become_class(&mut graph.elements[element], catalog, "ReplayUnqueue", args);
    connect(graph, trace, element);
    trace
}
