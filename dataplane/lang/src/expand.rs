//! Compound elements to plain ones: overloads are chosen, variables replaced, connections through
//! `input` and `output` joined, and dispatchers put where context links are.

mod links;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use thruway_element::text;

use crate::connect::Point;
use crate::diagnostics::Diagnostic;
use crate::graph::{ArgText, Edge, EdgeKind, ElementDecl, Frame, PortRef, UNKNOWN};
use crate::lower::Lowerer;
use crate::overload;
use crate::scope::{Class, ClassId, CompoundClass, Conn, DeclKind, Scope};
use crate::source::Span;
use crate::variables::{Env, Mapped, Variables, expand_text};

/// Most elements after expansion, `input`s and `output`s of compound elements included.
pub const MAX_ELEMENTS: usize = 100_000;
/// Most connections after expansion.
pub const MAX_EDGES: usize = 1_000_000;
/// How deep instances of element classes may nest.
pub const MAX_DEPTH: usize = 64;
/// Most bytes of all configuration strings and names together, those that were given up for others
/// included.
pub const MAX_TOTAL_TEXT: usize = 256 << 20;
/// Most arguments of an element.
pub const MAX_ARGS: usize = 2_000_000;
/// Most steps through `input`s and `output`s.
const MAX_STEPS: usize = 10_000_000;

/// An element, or an end of a compound element.
struct Node {
    name: String,
    kind: NodeKind,
    config: Mapped,
    span: Span,
    context: Option<Rc<Context>>,
    inputs: u32,
    outputs: u32,
}

#[derive(Clone, Copy)]
enum NodeKind {
    Element(ClassId),
    /// What enters its inputs leaves from the outputs of the node given, if any.
    Tunnel(Option<usize>),
}

/// A compound element around an element, with those around it.
struct Context {
    frame: Frame,
    outer: Option<Rc<Context>>,
}

/// A compound element or group. All its outer ports must be used.
struct Border {
    node: usize,
    inputs: u32,
    outputs: u32,
}

/// A connection between elements.
#[derive(Clone, Copy)]
struct Joined {
    from: Point,
    to: Point,
    /// The connection as written that is the first context link on the path, if any is one.
    link: Option<usize>,
    /// Of that link, or of the connection that leaves `from`.
    span: Span,
}

/// A limit was exceeded and reported.
struct Stop;

pub(crate) struct Expander<'a, 'b> {
    lowerer: &'a mut Lowerer<'b>,
    classes: Vec<Class>,
    nodes: Vec<Node>,
    conns: Vec<Conn>,
    names: HashMap<String, usize>,
    borders: Vec<Border>,
    /// Bytes of text that may still be made.
    left: usize,
}

/// The plain elements and edges of the outermost scope.
pub(crate) fn expand(
    lowerer: &mut Lowerer<'_>,
    scope: Scope,
    variables: &Variables,
) -> (Vec<ElementDecl>, Vec<Edge>) {
    let classes = std::mem::take(&mut lowerer.classes);
    let mut expander = Expander {
        lowerer,
        classes,
        nodes: Vec::new(),
        conns: Vec::new(),
        names: HashMap::new(),
        borders: Vec::new(),
        left: MAX_TOTAL_TEXT,
    };
    let mut env = Env::within(None);
    scope.defines.iter().for_each(|(name, value)| env.set(name, value.clone(), false));
    variables.iter().for_each(|(name, value)| env.set(name, value.to_string(), false));
    let edges = match expander.all(scope, Rc::new(env)) {
        Ok(edges) => edges,
        Err(Stop) => return (Vec::new(), Vec::new()),
    };
    expander.finish(edges)
}

impl Expander<'_, '_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.lowerer.diagnostics.push(Diagnostic::error(span, message));
    }

    fn all(&mut self, scope: Scope, env: Rc<Env>) -> Result<Vec<Joined>, Stop> {
        let nodes = self.declare(&scope, "", None)?;
        for (decl, node) in scope.decls.iter().zip(nodes) {
            if let (DeclKind::Class(_), Some(node)) = (decl.kind, node) {
                self.instantiate(node, &env, 0)?;
            }
        }
        self.check_borders();
        let joined = self.join()?;
        self.dispatch(joined)
    }

    /// Adds the declarations of a scope, with names that begin with `prefix`.
    fn declare(
        &mut self,
        scope: &Scope,
        prefix: &str,
        within: Option<(usize, Rc<Context>)>,
    ) -> Result<Vec<Option<usize>>, Stop> {
        let mut nodes: Vec<Option<usize>> = Vec::with_capacity(scope.decls.len());
        for (index, decl) in scope.decls.iter().enumerate() {
            let before = |n: usize| index.checked_sub(n).and_then(|at| nodes[at]);
            let kind = match decl.kind {
                DeclKind::Class(class) => NodeKind::Element(class),
                // Its `input` is the next node.
                DeclKind::Group { .. } => NodeKind::Tunnel(Some(self.nodes.len() + 1)),
                DeclKind::Input => NodeKind::Tunnel(None),
                DeclKind::Output if index == 1 && within.is_some() => {
                    NodeKind::Tunnel(within.as_ref().map(|(node, _)| *node))
                }
                DeclKind::Output => NodeKind::Tunnel(before(2)),
            };
            let name = format!("{prefix}{}", decl.name);
            if let Some(other) = self.names.get(&name) {
                let other = self.nodes[*other].span;
                let message = format!("redeclaration of element '{name}'");
                let previous = format!("element '{name}' previously declared here");
                let error = Diagnostic::error(decl.span, message).beside(other, previous);
                self.lowerer.diagnostics.push(error);
                nodes.push(None);
                continue;
            }
            let context = within.as_ref().map(|(_, context)| context.clone());
            let node = self.add(Node {
                name,
                kind,
                config: decl.config.clone(),
                span: decl.span,
                context,
                inputs: decl.inputs,
                outputs: decl.outputs,
            })?;
            if let DeclKind::Group { inputs, outputs } = decl.kind {
                self.borders.push(Border { node, inputs, outputs });
            }
            nodes.push(Some(node));
        }
        for conn in &scope.conns {
            if let (Some(from), Some(to)) = (nodes[conn.from.0], nodes[conn.to.0]) {
                let (from, to) = ((from, conn.from.1), (to, conn.to.1));
                self.conns.push(Conn { from, to, ..*conn });
            }
        }
        if self.conns.len() > MAX_EDGES {
            self.error(Span::default(), format!("more than {MAX_EDGES} connections"));
            return Err(Stop);
        }
        Ok(nodes)
    }

    fn add(&mut self, node: Node) -> Result<usize, Stop> {
        if self.nodes.len() == MAX_ELEMENTS {
            self.error(node.span, format!("more than {MAX_ELEMENTS} elements"));
            return Err(Stop);
        }
        let size = node.name.len() + node.config.text.len();
        let Some(left) = self.left.checked_sub(size) else {
            return Err(self.too_long(node.span));
        };
        self.left = left;
        self.names.insert(node.name.clone(), self.nodes.len());
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn too_long(&mut self, span: Span) -> Stop {
        let message = format!(
            "names and configuration strings are too long after replacing variables (together \
             more than {MAX_TOTAL_TEXT} bytes)"
        );
        self.error(span, message);
        Stop
    }

    /// Replaces the variables of a node's configuration, and the node itself if it is compound.
    fn instantiate(&mut self, node: usize, env: &Rc<Env>, depth: usize) -> Result<(), Stop> {
        let NodeKind::Element(class) = self.nodes[node].kind else { return Ok(()) };
        let span = self.nodes[node].span;
        let Ok(config) = self.nodes[node].config.expand(env, &mut self.left) else {
            return Err(self.too_long(span));
        };
        if config.text.bytes().filter(|byte| *byte == b',').count() > MAX_ARGS {
            self.error(span, format!("more than {MAX_ARGS} arguments"));
            return Err(Stop);
        }
        self.nodes[node].config = config;
        let Class::Compound(_) = &self.classes[class] else { return Ok(()) };
        let args = text::split_args(&self.nodes[node].config.text);
        let args: Vec<String> = args.into_iter().map(|(arg, _)| arg).collect();
        let used = (self.nodes[node].inputs, self.nodes[node].outputs);
        match overload::choose(&self.classes, class, &args, used) {
            Ok((chosen, values)) => self.enter(node, chosen, values, (env, depth)),
            Err(error) => {
                let error = error.into_diagnostic(&self.classes, class, self.nodes[node].span);
                self.lowerer.diagnostics.push(error);
                self.nodes[node].kind = NodeKind::Tunnel(None);
                Ok(())
            }
        }
    }

    /// Puts the inside of compound class `class` in the place of `node`.
    fn enter(
        &mut self,
        node: usize,
        class: ClassId,
        values: Vec<String>,
        (env, depth): (&Rc<Env>, usize),
    ) -> Result<(), Stop> {
        if !matches!(self.classes[class], Class::Compound(_)) {
            self.nodes[node].kind = NodeKind::Element(class);
            return Ok(());
        }
        if depth == MAX_DEPTH {
            let message = format!("element classes nest deeper than {MAX_DEPTH}");
            self.error(self.nodes[node].span, message);
            return Err(Stop);
        }
        // Taken out while its elements are placed: it cannot contain itself.
        let taken = std::mem::replace(&mut self.classes[class], Class::Unknown(String::new()));
        let Class::Compound(compound) = taken else { return Ok(()) };
        let result = self.enter_compound(node, &compound, values, (env, depth));
        self.classes[class] = Class::Compound(compound);
        result
    }

    fn enter_compound(
        &mut self,
        node: usize,
        compound: &CompoundClass,
        values: Vec<String>,
        (env, depth): (&Rc<Env>, usize),
    ) -> Result<(), Stop> {
        let mut inner = Env::within(Env::outside(env, compound.depth));
        for (formal, value) in compound.formals.iter().zip(values) {
            inner.set(&formal.variable, value, true);
        }
        for (name, value) in &compound.scope.defines {
            let Ok(value) = expand_text(value, &inner, &mut self.left) else {
                return Err(self.too_long(compound.span));
            };
            inner.set(name, value, true);
        }
        let inner = Rc::new(inner);
        let Node { name, span, context, .. } = &self.nodes[node];
        let landmark = self.lowerer.sources.landmark(*span);
        let frame = Frame { name: name.clone(), span: *span, landmark };
        let prefix = format!("{name}/");
        let context = Rc::new(Context { frame, outer: context.clone() });
        let border = Border { node, inputs: compound.inputs, outputs: compound.outputs };
        self.borders.push(border);
        let nodes = self.declare(&compound.scope, &prefix, Some((node, context)))?;
        self.nodes[node].kind = NodeKind::Tunnel(nodes[0]);
        for node in nodes.into_iter().flatten() {
            self.instantiate(node, &inner, depth + 1)?;
        }
        Ok(())
    }

    /// Every port of a compound element that is used inside must be used outside, and vice versa.
    fn check_borders(&mut self) {
        let mut used: HashSet<(Point, bool)> = HashSet::new();
        for conn in &self.conns {
            used.insert((conn.from, true));
            used.insert((conn.to, false));
        }
        for border in std::mem::take(&mut self.borders) {
            let node = &self.nodes[border.node];
            let (name, span) = (node.name.clone(), node.span);
            let sides = [
                ("input", false, border.inputs, node.inputs),
                ("output", true, border.outputs, node.outputs),
            ];
            for (side, is_output, inside, outside) in sides {
                for port in 0..inside.max(outside) {
                    let is_used = used.contains(&((border.node, port), is_output));
                    if port < inside && !is_used {
                        self.error(span, format!("'{name}' {side} {port} unused"));
                    } else if port >= inside && is_used {
                        self.error(span, format!("'{name}' has no {side} {port}"));
                    }
                }
            }
        }
    }

    /// Connections between elements, those through `input`s and `output`s joined; those of an
    /// output in the order in which they are written, outer ones first.
    fn join(&mut self) -> Result<Vec<Joined>, Stop> {
        let mut by_source: HashMap<Point, Vec<usize>> = HashMap::new();
        for (index, conn) in self.conns.iter().enumerate() {
            if matches!(self.nodes[conn.from.0].kind, NodeKind::Tunnel(_)) {
                by_source.entry(conn.from).or_default().push(index);
            }
        }
        let context = |index: usize| {
            let is_context = self.conns[index].kind == EdgeKind::Context;
            is_context.then_some(index)
        };
        let mut edges = Vec::new();
        let mut steps = 0;
        for (index, conn) in self.conns.iter().enumerate() {
            if !matches!(self.nodes[conn.from.0].kind, NodeKind::Element(_)) {
                continue;
            }
            let mut seen = HashSet::new();
            let mut pending = vec![(conn.to, context(index))];
            while let Some((to, link)) = pending.pop() {
                steps += 1;
                match self.nodes[to.0].kind {
                    NodeKind::Element(_) => {
                        let span = self.conns[link.unwrap_or(index)].span;
                        edges.push(Joined { from: conn.from, to, link, span });
                    }
                    NodeKind::Tunnel(None) => {}
                    NodeKind::Tunnel(Some(exit)) if seen.insert((to, link.is_some())) => {
                        let next = by_source.get(&(exit, to.1)).map_or(&[][..], Vec::as_slice);
                        let further =
                            |next: &usize| (self.conns[*next].to, link.or(context(*next)));
                        pending.extend(next.iter().rev().map(further));
                    }
                    NodeKind::Tunnel(Some(_)) => {}
                }
                if steps > MAX_STEPS || edges.len() > MAX_EDGES {
                    let message = "connections through compound elements are too many to follow";
                    self.lowerer.diagnostics.push(Diagnostic::error(conn.span, message));
                    return Err(Stop);
                }
            }
        }
        Ok(edges)
    }

    fn finish(self, joined: Vec<Joined>) -> (Vec<ElementDecl>, Vec<Edge>) {
        let mut index_of = vec![usize::MAX; self.nodes.len()];
        let mut elements = Vec::new();
        for (node, slot) in self.nodes.into_iter().zip(&mut index_of) {
            if let NodeKind::Element(class) = node.kind {
                *slot = elements.len();
                elements.push(element(node, &self.classes[class], self.lowerer));
            }
        }
        let port = |point: Point| PortRef { element: index_of[point.0], port: point.1 as usize };
        let mut edges: Vec<Edge> = joined
            .into_iter()
            .map(|edge| Edge {
                from: port(edge.from),
                to: port(edge.to),
                kind: if edge.link.is_some() { EdgeKind::Context } else { EdgeKind::Packet },
                span: edge.span,
            })
            .collect();
        edges.sort_by_key(|edge| (edge.from, edge.to));
        edges.dedup_by_key(|edge| (edge.from, edge.to));
        (elements, edges)
    }
}

fn element(node: Node, class: &Class, lowerer: &Lowerer<'_>) -> ElementDecl {
    let (class, spec) = match class {
        Class::Primitive(name, spec) => (name.clone(), *spec),
        Class::Unknown(name) => (name.clone(), &UNKNOWN),
        Class::Compound(class) => (class.name.clone(), &UNKNOWN),
    };
    let args = text::split_args(&node.config.text)
        .into_iter()
        .map(|(text, range)| ArgText { text, span: node.config.span_of(range) })
        .collect();
    let mut context = Vec::new();
    let mut outer = node.context.as_ref();
    while let Some(around) = outer {
        context.push(around.frame.clone());
        outer = around.outer.as_ref();
    }
    ElementDecl {
        name: node.name,
        class,
        spec,
        config: node.config.text,
        args,
        span: node.span,
        landmark: lowerer.sources.landmark(node.span),
        context,
    }
}
