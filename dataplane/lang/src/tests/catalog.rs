//! A few element classes, enough for every port code.

use thruway_element::{Catalog, Purpose, Spec, Threading};

use crate::{Diagnostics, Graph, Loaded, NoLibraries, Source, Variables, load, parse_with};

pub struct Small;

const fn spec(name: &'static str, ports: &'static str, processing: &'static str) -> Spec {
    Spec { name, ports, processing, ..Spec::DEFAULT }
}

static SPECS: &[Spec] = &[
    Spec { threading: Threading::Task, ..spec("InfiniteSource", "0/1", "h") },
    Spec { threading: Threading::Task, ..spec("Unqueue", "1/1", "l/h") },
    spec("Queue", "1/1", "h/l"),
    spec("Discard", "1/0", "a"),
    Spec { threading: Threading::Task, ..spec("ToDevice", "1/0", "l") },
    spec("Null", "1/1", "a/a"),
    spec("Counter", "1/1", "a/a"),
    spec("IPFilter", "1/-", "h"),
    spec("Classifier", "1/-", "h"),
    spec("CheckIPHeader", "1/1-2", "a/ah"),
    spec("RoundRobinSched", "1-/1", "l"),
    spec("Tee", "1/1-", "h"),
    Spec { flow: "#/#", ..spec("Lanes", "-/=", "a/a") },
    Spec { purpose: Purpose::DispatchLinks, ..spec("FlowDispatcher", "1/-", "h") },
    spec("Any", "-/-", "a/a"),
    spec("Info", "0/0", "a"),
];

impl Catalog for Small {
    fn spec(&self, name: &str) -> Option<&'static Spec> {
        SPECS.iter().find(|spec| spec.name == name)
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = SPECS.iter().map(|spec| spec.name).collect();
        names.sort_unstable();
        names
    }
}

pub fn parsed(text: &str) -> (Graph, Diagnostics) {
    parse_with(Source::new("config", text), &Small, &Variables::new(), &NoLibraries)
}

pub fn graph(text: &str) -> Graph {
    let (graph, diagnostics) = parsed(text);
    assert!(!diagnostics.has_errors(), "{}", diagnostics.render(false));
    graph
}

pub fn loaded(text: &str) -> Result<Loaded, Diagnostics> {
    load(Source::new("config", text), &Small, &Variables::new(), &NoLibraries)
}

/// `name :: Class(config)` of every element.
pub fn elements(graph: &Graph) -> Vec<String> {
    let show = |e: &crate::ElementDecl| match e.config.as_str() {
        "" => format!("{} :: {}", e.name, e.class),
        config => format!("{} :: {}({config})", e.name, e.class),
    };
    graph.elements.iter().map(show).collect()
}

/// `name[port] -> [port]name` of every edge.
pub fn edges(graph: &Graph) -> Vec<String> {
    let show = |edge: &crate::Edge| {
        let name = |at: crate::PortRef| &graph.elements[at.element].name;
        let arrow = if edge.kind == crate::EdgeKind::Context { "~>" } else { "->" };
        format!(
            "{}[{}] {arrow} [{}]{}",
            name(edge.from),
            edge.from.port,
            edge.to.port,
            name(edge.to)
        )
    };
    graph.edges.iter().map(show).collect()
}
