//! Isolated parts of a configuration: what `Isolate` names is taken out of the graph, and an Nf
//! that runs it in a process of its own (`thruway worker`) is put in its place.
//!
//! ```text
//!  a -> [p] -> b      a -> [p/nf] -> b          in the process:  isolated@ports -> p
//!  Isolate(p)         p :: IsolatedElement                       -> isolated@ports
//! ```

use std::collections::BTreeSet;

use thruway_element::text::quote;
use thruway_element::{ArgRule, Catalog as _, Handler, Purpose, Spec};
use thruway_elements::CATALOG;
use thruway_engine::{BuildError, Stage};
use thruway_lang::{
    ArgText, Checked, Edge, EdgeKind, ElementDecl, Graph, PortRef, Processing, Span, unparse,
};
use thruway_nf_abi::message::LEN_MAX;
use thruway_packet::Packet;

/// The name of the element by which packets enter and leave inside of the process.
const PORTS: &str = "isolated@ports";

/// Whether anything is to be isolated.
pub fn is_wanted(graph: &Graph) -> bool {
    graph.elements.iter().any(is_isolate)
}

/// Whether its arguments name what is isolated.
fn is_isolate(decl: &ElementDecl) -> bool {
    decl.spec.purpose == Purpose::IsolateNamed
}

/// A part: what one process runs.
struct Part {
    /// Full name of the element or compound element.
    name: String,
    /// Index of the Isolate that names it.
    isolate: usize,
    /// Ports that connections from outside enter, and those that connections to the outside leave:
    /// the ports of the Nf, in order.
    inputs: Vec<PortRef>,
    outputs: Vec<PortRef>,
}

/// The graph with all parts taken out.
///
/// # Errors
/// What cannot be isolated, and why.
pub fn apply(graph: &Graph, checked: &Checked) -> Result<Graph, Vec<BuildError>> {
    let mut errors = Vec::new();
    let (mut parts, owners) = parts(graph, &mut errors);
    for edge in boundary(graph, &owners) {
        let port = &checked.elements[edge.from.element].outputs[edge.from.port];
        if port.processing == Processing::Pull {
            let [from, to] = [edge.from, edge.to].map(|port| &graph.elements[port.element].name);
            let part = owners[edge.from.element].or(owners[edge.to.element]).unwrap_or(0);
            let message = format!(
                "'{to}' pulls from '{from}', and packets are pushed into and out of a process: put \
                 an Unqueue between them, or isolate both"
            );
            errors.push(error(parts[part].isolate, None, message));
            continue;
        }
        if let Some(part) = owners[edge.from.element] {
            parts[part].outputs.push(edge.from);
        }
        if let Some(part) = owners[edge.to.element] {
            parts[part].inputs.push(edge.to);
        }
    }
    for part in &mut parts {
        for ports in [&mut part.inputs, &mut part.outputs] {
            ports.sort_unstable();
            ports.dedup();
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    outer(graph, &parts, &owners)
}

fn error(node: usize, arg: Option<usize>, message: String) -> BuildError {
    BuildError::at(Stage::Arguments, node, message).arg(arg)
}

/// Connections between a part and something else.
fn boundary<'a>(graph: &'a Graph, owners: &'a [Option<usize>]) -> impl Iterator<Item = &'a Edge> {
    graph.edges.iter().filter(|edge| owners[edge.from.element] != owners[edge.to.element])
}

/// The parts that all Isolate elements name, and to which part each element belongs.
fn parts(graph: &Graph, errors: &mut Vec<BuildError>) -> (Vec<Part>, Vec<Option<usize>>) {
    let mut parts: Vec<Part> = Vec::new();
    let mut owners = vec![None; graph.elements.len()];
    let isolates = graph.elements.iter().enumerate().filter(|(_, decl)| is_isolate(decl));
    for (isolate, decl) in isolates {
        for (arg, text) in decl.args.iter().enumerate().filter(|(_, text)| !is_keyword(text)) {
            let Some(name) = full_name(graph, decl, &text.text) else {
                let message = format!("no element named '{}'", text.text);
                errors.push(error(isolate, Some(arg), message));
                continue;
            };
            for (node, member) in graph.elements.iter().enumerate() {
                if !within(&member.name, &name) {
                    continue;
                }
                if is_isolate(member) || owners[node].is_some() {
                    let message = format!("'{}' would be isolated twice", member.name);
                    errors.push(error(isolate, Some(arg), message));
                }
                owners[node] = Some(parts.len());
            }
            parts.push(Part { name, isolate, inputs: Vec::new(), outputs: Vec::new() });
        }
    }
    (parts, owners)
}

fn within(element: &str, name: &str) -> bool {
    element.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether an argument of Isolate is one of those that it passes on.
fn is_keyword(arg: &ArgText) -> bool {
    let word = arg.text.split_whitespace().next().unwrap_or_default();
    let spec = CATALOG.of_purpose(Purpose::IsolateNamed);
    spec.and_then(|spec| spec.arg(word)).is_some_and(|arg| arg.rule != ArgRule::Rest)
}

/// What a name means inside of the compound element of `from`: the innermost counts.
fn full_name(graph: &Graph, from: &ElementDecl, name: &str) -> Option<String> {
    let mut scope = from.name.as_str();
    loop {
        scope = scope.rsplit_once('/').map_or("", |(outer, _)| outer);
        let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") };
        if graph.elements.iter().any(|decl| within(&decl.name, &full)) {
            return Some(full);
        }
        if scope.is_empty() {
            return None;
        }
    }
}

/// What remains outside: the parts' elements become stand-ins, and each part gets its Nf.
fn outer(
    graph: &Graph,
    parts: &[Part],
    owners: &[Option<usize>],
) -> Result<Graph, Vec<BuildError>> {
    let first_nf = graph.elements.len();
    let mut outer = graph.clone();
    for (node, owner) in owners.iter().enumerate() {
        if let Some(part) = owner {
            stand_in(&mut outer.elements[node], &parts[*part]);
        }
    }
    let mut errors = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        match nf(graph, part, &inner(graph, part, at, owners)) {
            Ok(nf) => outer.elements.push(nf),
            Err(error) => errors.push(error),
        }
    }
    let of = |port: PortRef, ports: fn(&Part) -> &Vec<PortRef>| match owners[port.element] {
        Some(part) => {
            let at = ports(&parts[part]).binary_search(&port).unwrap_or(0);
            PortRef { element: first_nf + part, port: at }
        }
        None => port,
    };
    let stays = |edge: &&Edge| {
        owners[edge.from.element].is_none() || owners[edge.from.element] != owners[edge.to.element]
    };
    let edges = graph.edges.iter().filter(stays).map(|edge| Edge {
        from: of(edge.from, |part| &part.outputs),
        to: of(edge.to, |part| &part.inputs),
        ..*edge
    });
    outer.edges = sorted(edges);
    if errors.is_empty() { Ok(outer) } else { Err(errors) }
}

fn sorted(edges: impl Iterator<Item = Edge>) -> Vec<Edge> {
    let mut seen = BTreeSet::new();
    let mut edges: Vec<Edge> = edges.filter(|edge| seen.insert((edge.from, edge.to))).collect();
    edges.sort_by_key(|edge| (edge.from, edge.to));
    edges
}

/// A part's own configuration as text: its elements, what declares names, and the ports.
fn inner(graph: &Graph, part: &Part, at: usize, owners: &[Option<usize>]) -> String {
    let declares = |decl: &ElementDecl| {
        decl.spec.purpose != Purpose::GroupTrust
            && CATALOG.entry(&decl.class).is_some_and(|entry| entry.declare.is_some())
    };
    let is_in = |node: &usize| owners[*node] == Some(at) || declares(&graph.elements[*node]);
    let nodes: Vec<usize> = (0..graph.elements.len()).filter(is_in).collect();
    let index = |port: PortRef| {
        // Its edges connect its own elements.
        let element = nodes.binary_search(&port.element).unwrap_or(0);
        PortRef { element, port: port.port }
    };
    let elements: Vec<ElementDecl> =
        nodes.iter().map(|node| graph.elements[*node].clone()).collect();
    let ports = elements.len();
    let own = graph.edges.iter().filter(|edge| {
        owners[edge.from.element] == Some(at) && owners[edge.to.element] == Some(at)
    });
    // A context link that leads into the part, or out of it, is dispatched on the other side.
    let plain = |edge: &Edge| Edge { kind: EdgeKind::Packet, ..*edge };
    let model = graph.edges.first().map(plain);
    let within = own.map(|edge| Edge { from: index(edge.from), to: index(edge.to), ..*edge });
    let outside = |port| PortRef { element: ports, port };
    let entering = part.inputs.iter().enumerate().filter_map(|(port, to)| {
        model.map(|edge| Edge { from: outside(port), to: index(*to), ..edge })
    });
    let leaving = part.outputs.iter().enumerate().filter_map(|(port, from)| {
        model.map(|edge| Edge { from: index(*from), to: outside(port), ..edge })
    });
    let edges = sorted(within.chain(entering).chain(leaving));
    let mut inner = Graph { elements, edges, requirements: Vec::new(), ..graph.clone() };
    let first = &graph.elements[part.isolate];
    // Of several packets, only those of such elements can be distinguished when they leave.
    let mut own_nodes = nodes.iter().filter(|node| owners[**node] == Some(at));
    let is_straight = own_nodes.all(|node| graph.elements[*node].spec.straight);
    inner.elements.push(ElementDecl {
        name: PORTS.to_owned(),
        class: class_of(Purpose::EnterProcess),
        config: if is_straight { format!("BATCH {}", Packet::TAGS) } else { String::new() },
        ..first.clone()
    });
    unparse(&inner)
}

/// The class of a purpose.
fn class_of(purpose: Purpose) -> String {
    CATALOG.of_purpose(purpose).map_or_else(String::new, |spec| spec.name.to_owned())
}

/// The Nf that runs a part, as if it had been declared where the Isolate is.
fn nf(graph: &Graph, part: &Part, text: &str) -> Result<ElementDecl, BuildError> {
    let isolate = &graph.elements[part.isolate];
    let wrong = |message: String| error(part.isolate, None, message);
    let spec = CATALOG.of_purpose(Purpose::RunProcess);
    let spec = spec.ok_or_else(|| wrong("no element runs processes".to_owned()))?;
    if text.len() > LEN_MAX / 2 {
        let message = format!(
            "'{}' is too long as a text: {} of {} bytes; isolate parts of it",
            part.name,
            text.len(),
            LEN_MAX / 2
        );
        return Err(wrong(message));
    }
    let program = std::env::current_exe()
        .map_err(|error| wrong(format!("the path of this program is unknown: {error}")))?;
    let exec = quote(quoted_word(&program.to_string_lossy(), "worker").as_bytes());
    let own = |text: String| ArgText { text, span: isolate.span };
    let mut args = vec![
        own(format!("EXEC {exec}")),
        own(format!("CONFIG {}", quote(text.as_bytes()))),
        own("CARRY true".to_owned()),
    ];
    args.extend(class(graph, part).map(|class| own(format!("CLASS {}", quote(class.as_bytes())))));
    args.extend(isolate.args.iter().filter(|arg| is_keyword(arg)).cloned());
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    Ok(ElementDecl {
        name: format!("{}/nf", part.name),
        class: spec.name.to_owned(),
        spec,
        config: texts.join(", "),
        args,
        ..isolate.clone()
    })
}

/// The class that a part declares to want: that of the element at its only input.
fn class(graph: &Graph, part: &Part) -> Option<&'static str> {
    let [input] = part.inputs[..] else { return None };
    let classes = graph.elements[input.element].spec.wants.classes;
    classes.get(input.port).or(classes.last()).copied()
}

/// A program and its argument as one line.
fn quoted_word(program: &str, argument: &str) -> String {
    format!("{} {argument}", quote(program.as_bytes()))
}

/// Makes the declaration of an isolated element that of what stands for it: the same name and
/// handlers, and no ports.
fn stand_in(decl: &mut ElementDecl, part: &Part) {
    let Some(stands) = CATALOG.of_purpose(Purpose::StandForIsolated) else { return };
    let nf = format!("{}/nf", part.name);
    decl.spec = Box::leak(Box::new(with_handlers(stands, decl.spec)));
    decl.class = stands.name.to_owned();
    decl.args = vec![ArgText { text: nf.clone(), span: Span::default() }];
    decl.config = nf;
}

/// The stand-in's declaration with an element's handlers. It is leaked by the caller, once for
/// each isolated element: declarations live as long as the process.
fn with_handlers(stands: &Spec, isolated: &Spec) -> Spec {
    let usual = Handler::OF_ALL
        .iter()
        .filter(|all| isolated.handlers.iter().all(|own| own.name != all.name));
    let handlers: Vec<Handler> = isolated.handlers.iter().chain(usual).copied().collect();
    Spec { handlers: handlers.leak(), ..*stands }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_lang::{NoLibraries, Source, Variables, load};

    /// The text that the only part is run from.
    fn part(text: &str) -> String {
        let source = Source::new("config", text);
        let loaded = load(source, &CATALOG, &Variables::new(), &NoLibraries);
        let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.click()));
        let outer = apply(&loaded.graph, &loaded.checked).expect("it can be isolated");
        let nf = outer.elements.iter().find(|decl| decl.class == "Nf").expect("an Nf");
        let config = nf.args.iter().find_map(|arg| arg.text.strip_prefix("CONFIG "));
        thruway_element::text::unquote_text(config.expect("a text"))
    }

    #[test]
    fn a_context_link_to_a_part_is_dispatched_outside_of_it() {
        let text = part("Isolate(n); Idle ~> n :: Null ~> Discard");
        assert!(text.contains("isolated@ports -> n\n    -> isolated@ports;"), "{text}");
        assert!(!text.contains("~>") && !text.contains("FlowDispatcher"), "{text}");
    }

    #[test]
    fn a_part_wants_what_its_first_element_wants() {
        let nf = |isolate: &str| {
            let text =
                format!("{isolate}; Idle ~> r :: ARPResponder(1.0.0.2 2:0:0:0:0:2) -> Discard");
            let source = Source::new("config", text);
            let loaded = load(source, &CATALOG, &Variables::new(), &NoLibraries);
            let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.click()));
            let outer = apply(&loaded.graph, &loaded.checked).expect("it can be isolated");
            outer.elements.last().map(|decl| decl.config.clone()).expect("an Nf")
        };
        assert!(nf("Isolate(r)").contains("CLASS \"arp request\""), "{}", nf("Isolate(r)"));
        // The last one counts.
        assert!(nf("Isolate(r, CLASS arp)").ends_with("CLASS arp"), "{}", nf("Isolate(r)"));
    }

    #[test]
    fn a_context_link_within_a_part_is_dispatched_there() {
        let text = part("Isolate(p); Idle -> p :: { input ~> n :: Null -> output } -> Discard");
        assert!(text.contains("p/FlowDispatcher@2 :: FlowDispatcher;"), "{text}");
        assert!(text.contains("-> p/FlowDispatcher@2;"), "{text}");
        assert!(text.contains("p/FlowDispatcher@2 ~> p/n\n"), "{text}");
    }
}
