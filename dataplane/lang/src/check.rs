//! Checks of a graph: port numbers, reuse, push and pull; and what follows from it.

use std::collections::VecDeque;

use crate::checked::{Checked, ElementPorts, Port, Processing};
use crate::codes::{Flow, PortCount, ProcessingCode};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::graph::{Edge, EdgeKind, ElementDecl, Graph, PortRef};
use crate::reach;

/// Most ports of all elements together.
pub const MAX_TOTAL_PORTS: usize = 500_000;

/// Checks the ports of a graph and settles push and pull; errors are as Click words them.
pub fn resolve(graph: &Graph) -> (Checked, Diagnostics) {
    resolve_part(graph, true)
}

/// [`resolve`]; of a graph that is not `complete`, because its text has errors, it is not said
/// what is unused or unreachable.
pub(crate) fn resolve_part(graph: &Graph, complete: bool) -> (Checked, Diagnostics) {
    let mut check = Check {
        graph,
        diagnostics: Diagnostics::default(),
        elements: Vec::new(),
        edges: Vec::new(),
    };
    check.diagnostics.sources = graph.sources.clone();
    if !check.count_ports() {
        return (Checked::default(), check.diagnostics);
    }
    check.index_edges();
    check.reuse(false);
    if complete {
        check.check_unused();
    }
    check.infer_processing();
    let elements = check.elements;
    let checked = Checked {
        order: reach::order(graph, &check.edges),
        unreachable: reach::unreachable(graph, &elements),
        tasks: reach::tasks(graph, &elements),
        elements,
    };
    let mut diagnostics = check.diagnostics;
    for element in checked.unreachable.iter().filter(|_| complete) {
        let decl = &graph.elements[*element];
        let message = format!("no packet can reach '{}'", decl.name);
        diagnostics.push(within(Diagnostic::advice(decl.span, message), decl));
    }
    (checked, diagnostics)
}

/// How Click's messages call an element.
fn declaration(decl: &ElementDecl) -> String {
    format!("{} :: {}", decl.name, decl.class)
}

/// Adds the compound elements around an element to what is said about it.
pub fn within(mut diagnostic: Diagnostic, decl: &ElementDecl) -> Diagnostic {
    for frame in &decl.context {
        let note = format!("in element '{}' declared at {}", frame.name, frame.landmark);
        diagnostic = diagnostic.note(note);
    }
    diagnostic
}

struct Check<'a> {
    graph: &'a Graph,
    diagnostics: Diagnostics,
    elements: Vec<ElementPorts>,
    /// Indices of edges with existing ports.
    edges: Vec<usize>,
}

/// A port of the graph.
type At = (usize, bool, usize);

impl Check<'_> {
    fn error(&mut self, element: usize, message: String) {
        let decl = &self.graph.elements[element];
        self.diagnostics.push(within(Diagnostic::error(decl.span, message), decl));
    }

    fn edge_error(&mut self, edge: &Edge, message: String) {
        let (from, to) =
            (&self.graph.elements[edge.from.element], &self.graph.elements[edge.to.element]);
        let mut error = within(Diagnostic::error(edge.span, message), from);
        if error.notes.is_empty() {
            error = within(error, to);
        }
        let declared =
            |decl: &ElementDecl| format!("'{}' is declared at {}", decl.name, decl.landmark);
        self.diagnostics.push(error.note(declared(from)).note(declared(to)));
    }

    /// Settles the numbers of ports; false if there are too many.
    fn count_ports(&mut self) -> bool {
        let mut used = vec![(0, 0); self.graph.elements.len()];
        for edge in &self.graph.edges {
            let outputs = &mut used[edge.from.element].1;
            *outputs = edge.from.port.saturating_add(1).max(*outputs);
            let inputs = &mut used[edge.to.element].0;
            *inputs = edge.to.port.saturating_add(1).max(*inputs);
        }
        let mut total = 0usize;
        for (index, decl) in self.graph.elements.iter().enumerate() {
            let codes = Codes::of(decl);
            if codes.is_none() {
                let message = format!("element class '{}' declares its ports wrongly", decl.class);
                self.error(index, message);
            }
            let codes = codes.unwrap_or_default();
            let (inputs, outputs) = codes.count.resolve(used[index].0, used[index].1);
            total = total.saturating_add(inputs).saturating_add(outputs);
            if total > MAX_TOTAL_PORTS {
                self.error(index, format!("more than {MAX_TOTAL_PORTS} ports"));
                return false;
            }
            let port = |declared: Option<Processing>| Port {
                processing: declared.unwrap_or(Processing::Push),
                agnostic: declared.is_none(),
                edges: Vec::new(),
            };
            self.elements.push(ElementPorts {
                inputs: (0..inputs).map(|n| port(codes.processing.input(n))).collect(),
                outputs: (0..outputs).map(|n| port(codes.processing.output(n))).collect(),
                flow: codes.flow,
            });
        }
        true
    }

    fn index_edges(&mut self) {
        for (index, edge) in self.graph.edges.iter().enumerate() {
            let sides = [(edge.from, true), (edge.to, false)];
            let mut placed = true;
            for (at, is_output) in sides {
                if at.port >= self.ports(at.element, is_output).len() {
                    placed = false;
                    let what = declaration(&self.graph.elements[at.element]);
                    let message = format!("'{what}' has no {} {}", side(is_output), at.port);
                    self.edge_error(edge, message);
                }
            }
            if placed {
                self.edges.push(index);
                for (at, is_output) in sides {
                    self.ports_mut(at.element, is_output)[at.port].edges.push(index);
                }
            }
        }
    }

    fn ports(&self, element: usize, is_output: bool) -> &[Port] {
        let ports = &self.elements[element];
        if is_output { &ports.outputs } else { &ports.inputs }
    }

    fn ports_mut(&mut self, element: usize, is_output: bool) -> &mut [Port] {
        let ports = &mut self.elements[element];
        if is_output { &mut ports.outputs } else { &mut ports.inputs }
    }

    /// Push outputs and pull inputs have one connection. Agnostic ones are seen to after they are
    /// settled.
    fn reuse(&mut self, agnostic: bool) {
        for element in 0..self.elements.len() {
            if self.graph.elements[element].is_unknown() {
                continue;
            }
            for is_output in [false, true] {
                for port in 0..self.ports(element, is_output).len() {
                    let at = &self.ports(element, is_output)[port];
                    let active = is_output == (at.processing == Processing::Push);
                    if at.edges.len() < 2 || !active || at.agnostic != agnostic {
                        continue;
                    }
                    let kind = if is_output { "push output" } else { "pull input" };
                    let decl = &self.graph.elements[element];
                    let what = declaration(decl);
                    let message = format!("illegal reuse of '{what}' {kind} {port}");
                    let mut error = Diagnostic::error(self.graph.elements[element].span, message);
                    for edge in at.edges.iter().take(4) {
                        error = error.hint(self.graph.edges[*edge].span, "connected here");
                    }
                    self.diagnostics.push(within(error, &self.graph.elements[element]));
                }
            }
        }
    }

    fn check_unused(&mut self) {
        for is_output in [false, true] {
            for element in 0..self.elements.len() {
                if self.graph.elements[element].is_unknown() {
                    continue;
                }
                for port in 0..self.ports(element, is_output).len() {
                    if self.ports(element, is_output)[port].edges.is_empty() {
                        let decl = &self.graph.elements[element];
                        let what = declaration(decl);
                        let message = format!("'{what}' {} {port} unused", side(is_output));
                        self.error(element, message);
                    }
                }
            }
        }
    }

    /// Spreads push and pull from ports that are one or the other over connections and through
    /// agnostic elements, then reports where they clash.
    fn infer_processing(&mut self) {
        let mut known: Vec<[Vec<Option<Processing>>; 2]> = Vec::new();
        let mut queue = VecDeque::new();
        for (index, ports) in self.elements.iter().enumerate() {
            let declared = |ports: &[Port]| -> Vec<Option<Processing>> {
                ports.iter().map(|port| (!port.agnostic).then_some(port.processing)).collect()
            };
            known.push([declared(&ports.inputs), declared(&ports.outputs)]);
            for is_output in [false, true] {
                let side = &known[index][usize::from(is_output)];
                let fixed = side.iter().enumerate().filter(|(_, port)| port.is_some());
                queue.extend(fixed.map(|(port, _)| (index, is_output, port)));
            }
        }
        while let Some(at) = queue.pop_front() {
            let Some(processing) = known[at.0][usize::from(at.1)][at.2] else { continue };
            for (element, is_output, port) in self.linked(at) {
                let other = &mut known[element][usize::from(is_output)][port];
                if other.is_none() {
                    *other = Some(processing);
                    queue.push_back((element, is_output, port));
                }
            }
        }
        for (ports, [inputs, outputs]) in self.elements.iter_mut().zip(known) {
            let sides = [(&mut ports.inputs, inputs), (&mut ports.outputs, outputs)];
            for (ports, known) in sides {
                for (port, known) in ports.iter_mut().zip(known) {
                    port.processing = known.unwrap_or(Processing::Push);
                }
            }
        }
        self.report_clashes();
        self.reuse(true);
    }

    /// The ports that must be of the same processing: at the other end of connections, and for an
    /// agnostic port the agnostic ones that packets flow to or from.
    fn linked(&self, (element, is_output, port): At) -> Vec<At> {
        let here = &self.ports(element, is_output)[port];
        let mut linked: Vec<At> = here
            .edges
            .iter()
            .map(|edge| {
                let edge = &self.graph.edges[*edge];
                let PortRef { element, port } = if is_output { edge.to } else { edge.from };
                (element, !is_output, port)
            })
            .collect();
        if here.agnostic {
            let flow = &self.elements[element].flow;
            let others = self.ports(element, !is_output).iter().enumerate();
            linked.extend(
                others
                    .filter(|(_, other)| other.agnostic)
                    .filter(
                        |(n, _)| {
                            if is_output { flow.allows(*n, port) } else { flow.allows(port, *n) }
                        },
                    )
                    .map(|(n, _)| (element, !is_output, n)),
            );
        }
        linked
    }

    fn report_clashes(&mut self) {
        for index in self.edges.clone() {
            let edge = self.graph.edges[index];
            let from = self.elements[edge.from.element].outputs[edge.from.port].processing;
            let to = self.elements[edge.to.element].inputs[edge.to.port].processing;
            let known = |at: PortRef| !self.graph.elements[at.element].is_unknown();
            if from != to && known(edge.from) && known(edge.to) {
                if edge.kind == EdgeKind::Context {
                    self.pulled_context(&edge, from);
                    continue;
                }
                let name = |at: PortRef| declaration(&self.graph.elements[at.element]);
                let message = format!(
                    "'{}' {} output {} connected to '{}' {} input {}",
                    name(edge.from),
                    word(from),
                    edge.from.port,
                    name(edge.to),
                    word(to),
                    edge.to.port
                );
                self.edge_error(&edge, message);
            }
        }
        for element in 0..self.elements.len() {
            let ports = &self.elements[element];
            let inputs = || ports.inputs.iter().enumerate().filter(|(_, port)| port.agnostic);
            let outputs = || ports.outputs.iter().enumerate().filter(|(_, port)| port.agnostic);
            let clash = inputs().find_map(|(i, input)| {
                let (o, output) = outputs()
                    .filter(|(_, output)| output.processing != input.processing)
                    .find(|(o, _)| ports.flow.allows(i, *o))?;
                let (input, output) = (word(input.processing), word(output.processing));
                Some(format!("{input} input {i}, {output} output {o}"))
            });
            if let Some(clash) = clash {
                let decl = &self.graph.elements[element];
                let message = format!("agnostic '{}' in mixed context: {clash}", declaration(decl));
                let mut error = Diagnostic::error(decl.span, message);
                let edges = [&ports.inputs, &ports.outputs].into_iter().flatten();
                let mut edges = edges.flat_map(|port| &port.edges).map(|e| &self.graph.edges[*e]);
                if let Some(link) = edges.find(|edge| edge.kind == EdgeKind::Context) {
                    error = error.note_at(link.span, PUSH_ONLY);
                }
                self.diagnostics.push(within(error, decl));
            }
        }
    }

    /// A context link at one end of which packets are pulled.
    fn pulled_context(&mut self, edge: &Edge, from: Processing) {
        let name = |at: PortRef| declaration(&self.graph.elements[at.element]);
        let what = match from {
            Processing::Pull => format!("'{}' pull output {}", name(edge.from), edge.from.port),
            Processing::Push => format!("'{}' pull input {}", name(edge.to), edge.to.port),
        };
        self.edge_error(edge, format!("context link at {what}: {PUSH_ONLY}"));
    }
}

/// Why a context link is no place to pull at.
const PUSH_ONLY: &str = "a context link sorts packets as they are pushed, and pulling would have \
                         to choose an element before there is a packet; put a queue behind it, or \
                         before it an element that pulls and pushes";

fn side(is_output: bool) -> &'static str {
    if is_output { "output" } else { "input" }
}

fn word(processing: Processing) -> &'static str {
    match processing {
        Processing::Push => "push",
        Processing::Pull => "pull",
    }
}

/// The parsed codes of a spec.
struct Codes {
    count: PortCount,
    processing: ProcessingCode,
    flow: Flow,
}

impl Codes {
    fn of(decl: &ElementDecl) -> Option<Codes> {
        Some(Codes {
            count: PortCount::parse(decl.spec.ports)?,
            processing: ProcessingCode::parse(decl.spec.processing)?,
            flow: Flow::parse(decl.spec.flow)?,
        })
    }
}

impl Default for Codes {
    fn default() -> Codes {
        Codes {
            count: PortCount::any(),
            processing: ProcessingCode::agnostic(),
            flow: Flow::default(),
        }
    }
}
